"""torchvision's ResNet, as far as tutorial 2 uses it, in plain PyTorch: the same modules, parameter names,
order of operations and initial
values, without torchvision's dependency on a matching binary."""

from torch import nn

KINDS = {18: ((2, 2, 2, 2), False), 34: ((3, 4, 6, 3), False), 50: ((3, 4, 6, 3), True)}


def conv(inputs, out, kernel, stride=1):
    return nn.Conv2d(inputs, out, kernel, stride, kernel // 2, bias=False)


def downsample(inputs, out, stride):
    return (
        nn.Sequential(conv(inputs, out, 1, stride), nn.BatchNorm2d(out))
        if stride != 1 or inputs != out
        else None
    )


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = downsample(inputs, width, stride)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.downsample(x) if self.downsample else x
        return self.relu(y)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample(inputs, 4 * width, stride)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x) if self.downsample else x
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, depth=18, in_channels=1, classes=10):
        super().__init__()
        counts, bottleneck = KINDS[depth]
        block = Bottleneck if bottleneck else BasicBlock
        self.conv1 = nn.Conv2d(in_channels, 64, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for stage, count in enumerate(counts):
            blocks = []
            for i in range(count):
                blocks.append(block(inputs, 64 << stage, 2 if stage and not i else 1))
                inputs = (64 << stage) * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(inputs, classes)
        for module in self.modules():
            # with other channels the tutorial puts a fresh Conv2d with its default initial values in the
            # stem's place
            if isinstance(module, nn.Conv2d) and (module is not self.conv1 or in_channels == 3):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images):
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))
