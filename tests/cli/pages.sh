#!/bin/bash
# pages.sh COMMAND - the pages that the command writes, in a browser: nothing from outside, nothing on the console, readable in a narrow and in a wide window,
# light and dark, and reachable with the keyboard.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/browser.sh"
browser_start

# ---- the checks find what they are for
page() { printf '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>t</title></head><body>%s</body></html>' "$1" >broken.html; visit broken.html 400 light; }
finds() { says "$1" "$PAGE_FAULTS"; }
page '<p>good</p>'; finds '^fine$'; quiet
page '<div style="width:600px">wide</div>'; finds '60[0-9] pixels wide in a window of 400'
page '<p style="font-size:8px">small</p>'; finds 'text of 8 pixels: small'
page '<p style="color:#999">pale</p>'; finds 'contrast 2\.[0-9]: pale'
page '<a href="https://example.com/x">out</a>'; finds 'A href=https://example.com/x leads outside'
page '<script>fetch("http://example.com/data")</script>'; [[ $events == *example.com* ]] || bad "a request to another host is not seen"
page '<script>nowhere()</script>'; [[ $events == *'nowhere is not defined'* ]] || bad "an error of a script is not seen"
page '<button id="a" onclick="this.textContent=1">a</button><button id="b" onmousemove="this.textContent=2">b</button>'
key Tab; says '^a$' 'document.activeElement.id'
key Enter; says '^1$' 'a.textContent'
hover '#b'; says '^2$' 'b.textContent'

# ---- what training writes
try 0 train mlp-mnist --set data.type=shapes --set train.steps=30 --set run.name=first --profile
fine runs/first/report.html
whole runs/first/report.html
says '^11 10000$' '(m => m.rows.length + " " + [...m.tBodies[0].querySelectorAll("td")].reduce((n, e) => n + Number(e.textContent.replace(/,/g, "")), 0))(document.querySelector("table.matrix"))'
says '^step.html,log/rank-0.step.html,log/rank-0.memory.html$' '[...document.querySelectorAll("a")].map(e => e.getAttribute("href"))'
visit runs/first/report.html 1280 light # the keyboard: behind the links Tab leads to the charts, the arrow keys show values
shown='[...document.querySelectorAll(".tip")].map(t => t.textContent).filter(t => t)'
for tab in 1 2 3 4; do key Tab; done
says '^plot img loss over steps, a drawing' '[document.activeElement.className, document.activeElement.getAttribute("role"), document.activeElement.getAttribute("aria-label")].join(" ")'
key End; says '^training  [0-9.]+  \(step 30\)' "$shown"
key ArrowLeft; says '^training  [0-9.]+  \(step (29|30)\)' "$shown"
key Tab; says '^$' "$shown"
try 0 predict runs/first --wrong --out mistakes.html --count 5
fine mistakes.html
fine runs/first/log/rank-0.memory.html
whole runs/first/log/rank-0.memory.html
visit runs/first/log/rank-0.memory.html 400 light # no mark of a chart lies over another
says '^0$' '[...document.querySelectorAll(".plot>svg")].reduce((n, s) => { const b = [...s.querySelectorAll("text.name")].filter(t => t.textContent).map(t => t.getBoundingClientRect()); return n + b.filter((x, i) => b.some((y, k) => k > i && Math.abs(x.top - y.top) < 3 && x.left < y.right && y.left < x.right)).length }, 0)'
fine runs/first/log/rank-0.step.html
says 'Step of first,measured' 'document.querySelector("h1").textContent + "," + steps[0].kind'
fine runs/first/step.html
says '^[0-9]+ true$' '(t => t.length + " " + t.every(r => r.title.endsWith(".")))([...document.querySelectorAll("#ops tbody tr")])'
says '^[A-Z].*\.$' 'choose(drawings[0], steps[0].spans.find(s => s.node.op === "linear")), [...facts.querySelectorAll("dt")].find(e => e.textContent === "computes").nextSibling.textContent'

# ---- the step: its numbers are the plan's, and what the drawing shows of an operation is what explain says of it
unset LOCKSTEP_ISA
try 0 explain vit-fashion-mnist --workers 4 --html vit.html
fine vit.html
whole vit.html
visit vit.html 1280 light
says '^Step of vit-fashion-mnist$' 'document.querySelector("h1").textContent'
says 'rank 0 of 4 · dp=4, fsdp in 11 units \(class:EncoderBlock\)' 'document.querySelector(".sub").textContent'
says '^not known,23,2.9 MiB,' '[...document.querySelectorAll(".card b")].map(e => e.textContent)'
try 0 plan vit-fashion-mnist --workers 4 --json
says "^$(sed 's/.*"memory":{"total":\([0-9]*\).*/\1/' out | awk '{ printf "%.1f MiB", $1 / 1048576 }')\$" 'document.querySelectorAll(".card b")[3].textContent'
says '^all_gather over dp,reduce_scatter over dp,all_reduce_max over dp,forward,backward,update$' 'drawings[0].lanes.map(l => l.name)'
says '^11,11,' 'drawings[0].lanes.map(l => l.items.length)'
try 0 explain vit-fashion-mnist --workers 4
kernel=$(grep -m 1 -A 3 '^forward  encoder.layers.encoder_layer_0.mlp.0$' out | grep linear)
says "arena \\+$(sed 's/.*arena +\([0-9]*\),.*/\1/' <<<"$kernel") " 'placeOf(steps[0].spans.find(s => s.node.op === "linear" && s.module.endsWith("layer_0.mlp.0")).node.out[0]).replaceAll(",", "") + " "'

# the keyboard: Tab leads to the filter, the buttons and the drawing; arrow keys walk, + zooms, 0 shows everything
says '^true$' 'document.activeElement === document.body'
for tab in 1 2 3 4; do key Tab; done
says '^whole step$' 'document.activeElement.textContent'
key Tab; says '^application$' 'document.activeElement.getAttribute("role")'
says '^all_gather of unit root' 'facts.textContent'
key ArrowRight
says 'permute|fused|linear' 'facts.querySelector("h3").textContent'
says 'reads.*f32 \[|reads.*u8 \[' 'facts.textContent'
key End; says '^adam ' 'facts.textContent'
key +; says '^true$' 'group.t1 - group.t0 < group.all'
key 0; says '^true$' 'group.t1 - group.t0 === group.all'
# the pointer: a bar of a collective, what it overlaps, the memory of that moment
js 'lanesAt = drawings[0].places.lanes[1], bar = drawings[0].lanes[1].items[3], box = drawings[0].canvas.getBoundingClientRect(), (box.left + drawings[0].x((bar.from + bar.to) / 2)) + ",\"y\":" + (box.top + lanesAt.from + 4)'
call Input.dispatchMouseEvent "{\"type\":\"mouseMoved\",\"x\":$value}"
says '^reduce_scatter of unit encoder.layers.encoder_layer_' 'facts.textContent'
says 'overlaps[0-9]+ kernels, .*memory then[0-9.]+ MiB: activations [0-9.]+ MiB' 'facts.textContent'
# the filter
js 'filter.value = "encoder_layer_3", filter.dispatchEvent(new Event("input"))'
units='[...document.querySelectorAll("#units tbody tr")].filter(r => r.checkVisibility()).map(r => r.cells[0].textContent + " " + r.cells[1].textContent)'
says '^encoder.layers.encoder_layer_3 reduce_scatter,encoder.layers.encoder_layer_3 all_gather$' "$units"
says '^linear [0-9]$' '(r => r[0].textContent + " " + r[2].textContent)([...document.querySelectorAll("#ops tbody tr")].find(r => r.cells[0].textContent === "linear").cells)'
js 'filter.value = "", filter.dispatchEvent(new Event("input"))'
says 'encoder_layer_4 all_gather' "$units"
# C and the script count the same
says '^true$' '(rows => rows(opsOfAll) === rows(opsTable(steps[0], drawings[0])))(t => [...t.querySelectorAll("tbody tr")].map(r => [0, 1, 2].map(i => r.cells[i].textContent)).join())'
quiet

# other shapes of a step: one rank, ddp, tensor parallel with long names, several micro-batches, hostile names
try 0 explain mlp-mnist --html one.html --set 'run.name=<b>&"x<!--<script>'; fine one.html
says '^Step of <b>&"x<!--<script>$' 'document.querySelector("h1").textContent'
try 0 explain resnet18-mnist --workers 2 --set parallel.data=ddp --set train.micro_batch=16 --html resnet.html; fine resnet.html
says 'shows one of 4 micro-batches, then the update' 'document.body.innerText'
says '^true$' 'steps[0].collectives.every(x => x.c.kind.startsWith("all_reduce"))'
# with a device whose memory is its own, copies start and wait as collectives do
try 0 explain mlp-mnist --workers 2 --set parallel.data=fsdp --set device=emulated --set parallel.offload=cpu --html copies.html; fine copies.html
says 'to_device' 'drawings[0].lanes.map(l => l.name)'
says '^to_device' '[...document.querySelectorAll("figure th[scope=row]")].map(e => e.textContent).filter(t => t.startsWith("to_"))'
js '(choose(drawings[0], steps[0].collectives.find(x => x.c.kind === "to_device")), 0)'
says '^to_device of unit .*moved[0-9.]+ KiB' 'facts.textContent'
long=$(printf 'long_%.0s' $(seq 19))
try 0 plan vit-fashion-mnist --machine epyc-9654 --workers 16 --set 'parallel.mesh={dp: 4, pp: 4}' --set train.micro_batch=8 --simulate --html ranks.html
fine ranks.html; whole ranks.html
says '^4 4$' 'document.querySelectorAll("svg[role=img]").length + " " + document.querySelector("tbody").rows.length'
try 0 explain qwen2.5-wikitext --set model.init=random --set run.name="$long" --html qwen.html; fine qwen.html
says 'all_reduce over tp' 'drawings[0].lanes.map(l => l.name)'
js '(choose(drawings[0], steps[0].spans.find(s => s.node.op === "linear")), 0)'
says 'tp: (Shard|Replicate)' 'facts.textContent'

# a hundred thousand kernel calls, and modules with long names: it is drawn, and found, at once
visit vit.html 400 light
js 'big = structuredClone(steps[0].view), p = big.programs[0], n = p.alive.length, nodes = p.plan.nodes.filter(x => x.step !== undefined && !p.plan.collectives.some(c => c.start === x.step)), times = Math.ceil(100000 / nodes.length), big.programs.forEach(x => { delete x.estimated }), p.plan.collectives = [], p.plan.nodes = [], alive = p.alive, p.alive = [], Array.from({length: times * nodes.length}, (_, i) => { const x = {...nodes[i % nodes.length], step: i, scope: "module_".repeat(60) + (i >> 8)}; p.plan.nodes.push(x); p.alive.push(alive[i % n]) }), before = performance.now(), step = readStep(big), group.t1 = group.all = step.length, d = new Lanes(step, group, "big"), drawings[0].canvas.replaceWith(d.canvas), d.draw(), performance.now() - before < 5000'
[ "$value" = true ] || bad "$what: 100,000 calls take more than 5 seconds"
says '^true$' 'step.spans.length > 100000 && d.find(200, d.places.memory[0]).index > 1000'
js 'tell(Object.assign(d, {at: step.spans[70000]})), document.scrollingElement.scrollWidth'
says '^400$' 'document.scrollingElement.scrollWidth'
quiet

# ---- measured times
ranks=(--set data.type=shapes --workers 2 --set train.steps=14 --set run.name=measured)
try 0 train mlp-mnist "${ranks[@]}" --profile
try 0 explain mlp-mnist "${ranks[@]}" --html measured.html --profile runs/measured/log/rank-0.trace.json
fine measured.html
says 'times measured: the median of [0-9]+ runs' 'document.querySelector(".sub").textContent'
says '^measured,[0-9.]+ [mu]?s' 'steps[0].kind + "," + document.querySelector(".card b").textContent'
try 0 explain mlp-mnist "${ranks[@]}" --rank 1 --html measured.html --profile runs/measured/log/rank-1.trace.json
refused 2 'rank-0.trace.json: .*another recipe, number of ranks' explain vit-fashion-mnist --html x.html --profile runs/measured/log/rank-0.trace.json
echo '{"traceEvents": []}' >empty.json
refused 1 'empty.json: no run of program micro is in it' explain mlp-mnist --html x.html --profile empty.json
refused 2 '--profile needs --html FILE' explain mlp-mnist --profile empty.json
refused 2 '--html and --json: give one of them' explain mlp-mnist --html x.html --json
refused 1 'null' explain mlp-mnist --html /dev/null/x/step.html
refused 2 '--html step: the name of a page ends in .html' explain mlp-mnist --html step
refused 2 '--out data.png: the name of a page ends in .html' data mlp-mnist --out data.png
[ ! -e x.html ] || bad "a refused page was written"

# ---- layouts side by side
try 0 plan vit-fashion-mnist --workers 4 --compare parallel.data=ddp,fsdp --html two.html
has out 'parallel.data +ddp +fsdp'
fine two.html
whole two.html
visit two.html 1280 dark
says '^2,true,true$' '[drawings.length, drawings[0].places.memory[0] === drawings[1].places.memory[0], drawings[0].canvas.getBoundingClientRect().top === drawings[1].canvas.getBoundingClientRect().top]'
says '^parallel.data=ddp,parallel.data=fsdp,Side by side$' '[...document.querySelectorAll("h2")].map(e => e.textContent)'
try 0 plan vit-fashion-mnist --workers 4 --compare workers=1,4 --compare parallel.reshard_after_forward=true,3 --html four.html
fine four.html
says 'reshard_after_forward=3 is refused: .*does not divide' 'document.body.innerText'
refused 2 'html needs --compare' plan mlp-mnist --html x.html

# ---- a model: the layout of a recipe, and the files of checkpoints
try 0 inspect vit-fashion-mnist --workers 4 --html model.html
fine model.html
whole model.html
says '^1,006,090,128,3.8 MiB,' '[...document.querySelectorAll(".card b")].map(e => e.textContent)'
try 0 inspect vit-fashion-mnist --workers 4 --json
name=encoder.layers.encoder_layer_0.mlp.0.weight
parts=$(sed "s/.*\"name\":\"$name\"//" out | grep -o '"rank":[0-9]*,"first":[0-9]*,"end":[0-9]*' | head -n 4 |
    while IFS=':,' read -r _ rank _ first _ end; do [ "$first" = "$end" ] || echo "$rank:$((end - first))"; done | paste -sd,)
says "^$parts\$" "data.tensors.find(t => t.name === '$name').held.map(x => x.by + ':' + x.count)"
says '^true$' 'top_.held.reduce((a, b) => a + b) === top_.bytes'
for tab in 1 2 3 4; do key Tab; done
says '^treeitem vit-fashion-mnist$' 'document.activeElement.getAttribute("role") + " " + document.activeElement.querySelector("b").textContent'
key ArrowDown; says '^class_token.*f32 \[1, 1, 128\].*rank 0: all of it' 'facts.textContent'
key Home; key ArrowLeft; says '^1$' 'rows.length'
key ArrowRight; key End; says '^heads' 'facts.textContent'
js 'input.value = "layer_3.mlp", input.dispatchEvent(new Event("input"))'
says '^encoder.layers.encoder_layer_3.mlp.[03].(weight|bias)(,|$)' 'rows.filter(n => n.tensor).map(n => n.path)'
quiet
try 0 inspect unet-segmentation --html unet.html # skips go around the blocks between; a block opens
visit unet.html 1280 light
says '^3$' 'document.querySelectorAll(".link").length'
js '(document.querySelectorAll(".flow button")[7].click(), 0)'
says '^true max_pool' '[document.querySelectorAll(".flow button")[7].getAttribute("aria-expanded"), document.querySelectorAll(".flow>li")[7].querySelector("ol").innerText].join(" ")'
quiet
try 0 inspect qwen2.5-wikitext --set model.init=random --html model.html # an axis splits its outputs
fine model.html
says '^true$' 'data.tensors.every(t => t.held.length > 0)'
# a hundred thousand tensors with long names
js '(data.tensors = Array.from({length: 100000}, (_, i) => ({name: "module_".repeat(30) + (i >> 6) + ".weight_" + i, dtype: "f32", shape: [2, 3], elements: 6, bytes: 24, where: "", held: [{by: i % 4, count: 6, what: "all of it"}]})), top_.children.clear(), Object.assign(top_, readTree()), openAll(true), rows.length + " " + top_.tensors + " " + document.scrollingElement.scrollWidth)'
says '^2000 100000 1280$' 'rows.length + " " + top_.tensors + " " + document.scrollingElement.scrollWidth'

try 0 train mlp-mnist --set data.type=shapes --workers 2 --set train.steps=2 --set checkpoint.files=per_rank --set run.name=files
try 0 inspect runs/files --html files.html
fine files.html
whole files.html
says '^model-rank-00000.safetensors,model-rank-00001.safetensors$' 'holders'
says '^file true$' 'data.holder + " " + (top_.held.reduce((a, b) => a + b) === top_.bytes)'
try 0 inspect runs/measured/checkpoints/latest --html whole.html
fine whole.html
says '^model.safetensors$' 'holders'
refused 2 '--html and --json: give one of them' inspect mlp-mnist --html x.html --json

# ---- what a model will see: images that are changed at random, numbers of images, named fields, text
cat >aug.yaml <<'END'
run: {name: '<b>&"seen'}
model: {type: mlp, hidden: [4]}
data: {type: shapes, augment: {crop: padded, flip: 0.5, randaugment: {ops: 2}, jitter: {brightness: 0.4}, erase: 0.25, mixup: 0.2, cutmix: 1.0}}
train: {global_batch: 16}
END
try 0 data aug.yaml --samples 20 --epoch 1 --out data.html
fine data.html
whole data.html
says '^40$' '[...document.images].filter(e => e.complete && e.naturalWidth === 28 && e.alt).length'
says '^Fields,Classes,The first 20 samples of epoch 1$' '[...document.querySelectorAll("h2")].map(e => e.textContent)'
says 'epoch 1 of run <b>&"seen, seed' 'document.querySelector(".sub").textContent'
says '(mixup 0\.|cutmix [0-9]+ x).* with .* -[0-9.]+ to [0-9.-]+, mean -[0-9.]+$' 'document.querySelector("figcaption").innerText.replaceAll("\n", " ")'
visit data.html 400 light
says '^true$' '[...document.querySelectorAll(".scroll")].every(e => e.getBoundingClientRect().right <= innerWidth)'
key End; says '^true$' 'new Promise(done => setTimeout(() => done(scrollY > 0), 300))' # the keyboard scrolls; nothing takes it away
try 0 data aug.yaml --split eval --samples 3 --out data.html
fine data.html
says '^3$' 'document.images.length'

mkdir set
for i in 0 1 2 3; do printf 'P2 8 8 255%s\n' "$(for k in $(seq 64); do printf ' %d' $((i * 40 + k)); done)" >set/$i.pgm; done
printf 'path,shade,<i>\n0.pgm,0,1\n1.pgm,0.25,2\n2.pgm,0.5,3\n3.pgm,0.75,4\n' >set/list.csv
cat >numbers.yaml <<'END'
model: {type: resnet18, outputs: {shade: []}}
data: {type: images, train_images: set/list.csv, eval_images: set/list.csv, size: 8}
loss: {type: mse, of: shade}
train: {global_batch: 2}
END
try 0 data numbers.yaml --samples 4 --out data.html
fine data.html
says '^shade 0(.25|.5|.75)?,' '[...document.querySelectorAll("figcaption b")].map(e => e.textContent) + ","'
try 0 data numbers.yaml --samples 4
has out ' shade 0.75 +3.pgm$'

awk -v OFS=, 'BEGIN { print "x,y"; for (i = 0; i < 64; i++) print i, i % 7 }' >table.csv
cat >fields.yaml <<'END'
model: {type: mlp, inputs: {x: []}, outputs: {y: []}}
data: {type: arrays, train: {x: table.csv, y: table.csv}, eval: {x: table.csv, y: table.csv}}
loss: {type: mse, of: y}
train: {global_batch: 8}
END
try 0 data fields.yaml --samples 5 --out data.html
fine data.html
says '^sample,x,y$' '[...[...document.querySelectorAll("table")].at(-1).querySelectorAll("th")].map(e => e.textContent)'
says '^true$' '[...[...document.querySelectorAll("table")].at(-1).querySelectorAll("tbody tr")].map(r => [...r.cells].map(c => +c.textContent)).every(r => r[0] === r[1] && r[2] === r[0] % 7)'
for i in $(seq 20); do printf 'Once upon a time <script>there</script> was a text.\n\n'; done >text.txt
try 0 data llama-shakespeare --set data.train_text=text.txt --set data.eval_text= --set data.eval_fraction=0.2 --set data.tokenizer=bytes --set data.seq_length=64 \
    --set train.global_batch=2 --set train.micro_batch=1 --samples 3 --out data.html
fine data.html
says '<script>there</script> was' 'document.body.innerText'
finish
