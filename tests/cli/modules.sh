#!/bin/bash
# modules.sh COMMAND CC ROOT [SANITIZERS] - models from shared objects: the one that `lockstep new` writes trains, resumes, predicts; its graph is its identity; runs and
# checkpoints load no code; what is not a module, or a hostile one, ends in one message.
source "$(dirname "$0")/common.sh"
cc=$2 root=$3 sanitize=${4:+-fsanitize=$4} # modules are looked at as the command is
build() { "$cc" -shared -fPIC $sanitize -Wall -Wextra -Werror -I"$root/include" "$@" -lm || bad "cc $*"; }

# ---- a new project: one command each
try 0 new mine; has out "cd mine && make && lockstep train recipe.yaml"
[ "$(ls mine | tr '\n' ' ')" = "Makefile README.md model.c recipe.yaml " ] || bad "$what: wrote $(ls mine)"
refused 2 "mine: it exists already" new mine
cd mine || exit 1
what="make without the headers" # a clone that is only built
! make -s CC="$cc -nostdinc" >out 2>err || bad "$what: ends well"
has err "lockstep/lockstep.h is not found: run 'make install'"
make -s CC="$cc" CFLAGS="-O1 -Wall -Wextra -Werror" LOCKSTEP_CFLAGS="-I$root/include $sanitize" || bad "make in a new project"
try 0 train recipe.yaml --set threads=1
[ "$(grep -o '"eval_loss":[0-9.e-]*' runs/pendulum/result.json | head -1 | cut -d: -f2 | awk '{ print ($1 < 0.01) }')" = 1 ] || bad "$what: it learns nothing: $(cat runs/pendulum/result.json)"
has runs/pendulum/recipe.yaml 'config: \{"hidden":32,"layers":2,"act":"tanh"\}'
has runs/pendulum/checkpoints/latest/trainer.json '"module":\{"name":"pendulum","version":"1","path":"./model.so","digest":"[0-9a-f]{16}","graph":"[0-9a-f]{16}","text":"parameter fc00.weight f32'
try 0 predict recipe.yaml --out y.csv; [ "$(wc -l <y.csv)" = 514 ] && [ "$(head -n 1 y.csv)" = sample,y ] || bad "$what: $(head -n 2 y.csv)"
try 0 eval recipe.yaml; has out "mae 0.0"
try 0 plan recipe.yaml --workers 2; try 0 explain recipe.yaml; has out "linear"

# ---- a trace names the lines of the module
try 0 train recipe.yaml --set run.name=traced --set train.steps=4 --set eval.every_epochs=-1 --profile 2:3
line=$(grep -n 'ls_linear(g, "head"' model.c | cut -d: -f1)
has runs/traced/log/rank-0.trace.json "\"name\":\"head linear\".*\"Call site\":\"model.c:$line\""

# ---- ranks: the same bits
try 0 train recipe.yaml --set run.name=two --set train.micro_batch=16 --set train.epochs=2 --workers 2
try 0 train recipe.yaml --set run.name=one --set train.micro_batch=16 --set train.epochs=2
cmp runs/one/checkpoints/latest/model.safetensors runs/two/checkpoints/latest/model.safetensors || bad "ranks change a bit"

# ---- no code from a run or a checkpoint; inspect, runs and export need none
for of in runs/pendulum runs/pendulum/checkpoints/latest; do
    refused 2 "its model is built by the module ./model.so. Lockstep loads no code that a run or a checkpoint names: give --module ./model.so if you trust that file" eval $of
    try 0 eval $of --module ./model.so; has out "mae 0.0"
    try 0 predict $of --module ./model.so --out q.csv; cmp q.csv y.csv || bad "$what: other predictions"
done
# RUN/recipe.yaml is what the run says, not what the user wrote; `train` has no --module, the key says it
for verb in train plan explain eval; do
    refused 2 "Lockstep loads no code that a run or a checkpoint names: give --module .* \(--set model.path=./model.so where there is no --module\)" $verb runs/pendulum/recipe.yaml
done
echo 'include: runs/pendulum/recipe.yaml' >including.yaml
refused 2 "Lockstep loads no code that a run" plan including.yaml
try 0 plan runs/pendulum/recipe.yaml --set model.path=./model.so
cp runs/pendulum/recipe.yaml copied.yaml; try 0 plan copied.yaml # the user's own now
mv model.so moved.so
try 0 inspect runs/pendulum; try 0 runs; try 0 export runs/pendulum --to x.safetensors; try 0 recipe recipe.yaml
refused 2 "recipe.yaml:3: model.path: ./model.so: no such file; build the module first" train recipe.yaml
try 0 eval runs/pendulum --set model.path=./moved.so
mv moved.so model.so

# ---- a network of one's own on images of a known kind: fields `images` and `labels`, augmented, with the recipe's loss
cat >net.c <<'EOT'
#include <lockstep/lockstep.h>
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self;
    ls_value x = ls_normalize_pixels(g, ls_input(g, "images", LS_TYPE(LS_U8, batch, 1, 28, 28)), 0.5, 0.5);
    x = ls_relu(g, ls_batch_norm(g, "bn", ls_conv2d(g, "conv", x, 4, 3, .stride = 2, .padding = 1)));
    x = ls_dropout(g, "drop", ls_reshape(g, x, batch, -1), 0.2);
    ls_output(g, "logits", ls_linear(g, "fc", x, 10));
    return ls_graph_finish(g);
}
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module module = { LS_MODULE_DEFAULTS, .name = "net", .version = "1", .build = build };
    return &module;
}
EOT
build net.c -o net.so
cat >net.yaml <<'EOT'
model: {type: module, path: ./net.so}
loss: {type: cross_entropy, of: logits, target: labels}
data: {type: shapes, augment: {crop: padded, padding: 2, flip: 0.5}}
train: {epochs: 2, steps_per_epoch: 6, global_batch: 32, micro_batch: 16, label_smoothing: 0.1}
threads: 1
EOT
try 0 train net.yaml
has err 'eval loss [0-9.]+  accuracy [0-9.]+%'
try 0 train net.yaml --set run.name=net2 --workers 2
cmp runs/net/checkpoints/latest/model.safetensors runs/net2/checkpoints/latest/model.safetensors || bad "$what: ranks change a bit"
for set in data.augment=none train.label_smoothing=0; do
    try 0 train net.yaml --set run.name=plain-${set%=*} --set $set
    ! cmp -s runs/net/checkpoints/latest/model.safetensors runs/plain-${set%=*}/checkpoints/latest/model.safetensors || bad "$what: no effect"
done
try 0 eval net.yaml
has out 'macro'
try 0 data net.yaml
has out 'images +u8 \[1, 28, 28\]'
refused 2 'data.augment.mixup: mixup and cutmix mix two labels, and the loss of a module has one' train net.yaml --set run.name=x --set data.augment.mixup=0.2
refused 2 'data.std: a module gets pixels of 0 to 255 and scales them itself' train net.yaml --set run.name=x --set data.std=0.3
refused 2 'a module takes fashion-mnist, mnist, idx, shapes, arrays or data of its own' train net.yaml --set run.name=x --set data.type=images --set data.path=.
sed 's/^loss.*//' net.yaml >no_loss.yaml
refused 2 'train.label_smoothing: the module declares its loss itself: call ls_cross_entropy_smooth' train no_loss.yaml --set run.name=x

# ---- the graph is the identity
echo '/* another file */ extern int unused; int unused = 1;' >>model.c; make -s CC="$cc" LOCKSTEP_CFLAGS="-I$root/include $sanitize"
try 0 train recipe.yaml --set train.epochs=21 --set threads=1; has err "model.so is not the file that the run began with; its graph is the same"
refused 2 "the model that pendulum 1 \(./model.so\) builds: \"parameter fc00.weight f32 \[16, 2\]\" here, \"parameter fc00.weight f32 \[32, 2\]\" there .*--allow-change" train recipe.yaml --set train.epochs=22 --set model.config.hidden=16
cp model.c kept.c; sed -i 's/ls_square(g, error), 1,/ls_square(g, error), 2,/' model.c; make -s CC="$cc" LOCKSTEP_CFLAGS="-I$root/include $sanitize"
refused 2 'loss \\?"mse\\?" %[0-9]+ factor 2 by element - how 0.* here, .*loss \\?"mse\\?" %[0-9]+ factor 1 by element' train recipe.yaml --set train.epochs=22
try 0 train recipe.yaml --set train.epochs=22 --allow-change --set threads=1; has err "changed since"
cp kept.c model.c; make -s CC="$cc" LOCKSTEP_CFLAGS="-I$root/include $sanitize"
try 0 eval recipe.yaml; once err "was made with another model: the model that pendulum 1 .* builds: .*factor 1 by element.* here, .*factor 2 by element"
try 0 predict recipe.yaml --out q.csv; once err "was made with another model"
mv kept.c model.c; make -s CC="$cc" LOCKSTEP_CFLAGS="-I$root/include $sanitize"

# ---- a loss of the recipe, for a model that declares none
grep -v 'ls_loss(\|ls_measure(' model.c | sed 's/const ls_value error = .*/(void)period;/' >plain.c
build plain.c -o plain.so
refused 2 "pendulum 1 \(./plain.so\) declares no loss: its build must call ls_loss, or the recipe name one" plan recipe.yaml --set model.path=./plain.so
try 0 train recipe.yaml --set model.path=./plain.so --set run.name=plain --set 'loss={type: mse, of: y, target: period}' --set threads=1
try 0 eval runs/plain --module ./plain.so; has out "rmse 0.0"; has out "r2 0.99"
try 0 train recipe.yaml --set run.name=whole --set threads=1
cmp runs/plain/checkpoints/latest/model.safetensors runs/whole/checkpoints/latest/model.safetensors || bad "the loss of the recipe and that of the model differ"
refused 2 'loss: of: the model has no output "z"; it has y' plan recipe.yaml --set model.path=./plain.so --set 'loss={type: mse, of: z}'
refused 2 "loss: pendulum 1 \(./model.so\) declares losses of its own: leave this one out" plan recipe.yaml --set 'loss={type: mse, of: y, target: period}'
# missing targets are masked here, too (explain reads no data)
sed "s/^data:.*/data: {type: arrays, train: {a: a.npy}, eval: {a: a.npy}, missing: mask}/" recipe.yaml >masked.yaml
try 0 explain masked.yaml --set model.path=./plain.so --set 'loss={type: mse, of: y, target: period}'; has out 'io "period.valid"'
refused 2 "field period is both the target and its weight" plan masked.yaml --set data.missing=error --set model.path=./plain.so --set 'loss={type: mse, of: y, target: period, mask: period}'

# ---- the config
refused 2 "config.hiden: pendulum 1 \(./model.so\) has no such key; did you mean hidden\? \(it has hidden, layers, act\)" plan recipe.yaml --set model.config.hiden=4
refused 2 "config.hidden: 0 is out of range \(from 1, up to 65536\)" plan recipe.yaml --set model.config.hidden=0
refused 2 "^error: --set model.config.hidden: a whole number is needed here, not 'many'" plan recipe.yaml --set model.config.hidden=many
refused 2 "config.inner: .* has no such key" plan recipe.yaml --set model.config.inner.x=1
refused 2 "--set model.config.act: there is no 'tahn'; did you mean 'tanh'\? \(one of: tanh, gelu\)" plan recipe.yaml --set model.config.act=tahn
sed 's/layers: 2/layers: 0/' recipe.yaml >zero.yaml # a value in the file has its line, also where --set changes another one
refused 2 "zero.yaml:3: model.config.layers: 0 is out of range \(from 1, up to 100\)" plan zero.yaml --set model.config.hidden=64
# the keys with values and origins; those of the module, as a table
try 0 recipe recipe.yaml --set model.config.hidden=64
has out '^    hidden: 64 +# --set$'; has out '^    layers: 2 +# recipe.yaml:3$'; has out '^    act: "tanh" +# default$'; has out '^    samples: 4096 +# recipe.yaml:4$'
cp out shown.yaml; try 0 recipe shown.yaml; has out '^    act: "tanh" +# shown.yaml:'
try 0 recipe recipe.yaml --set model.path=./none.so; has out '^# without the defaults of ./none.so: no such file'; has out '^    layers: 2 +# recipe.yaml:3$'
try 0 recipe runs/pendulum/recipe.yaml; has out '^# without the defaults of ./model.so: a run or a checkpoint names it'
try 0 recipe --reference ./model.so
has out '^# pendulum 1 \(./model.so\)$'; has out '^. `model.config.hidden` . whole number, from 1 to 65536 . `32` . width of a hidden layer .$'
has out '^. `model.config.act` . tanh, gelu . `tanh` . activation after a hidden layer .$'; has out '^. `data.config.samples` .*`4096`'
try 0 recipe --reference convnext_tiny; has out '^. `model.stochastic_depth` . number, from 0 to below 1 . `0.1`'; ! grep -q patch_size out || bad "$what: a key of another model"
refused 2 "--reference: there is no model convnet, nor a shared object of that name \(the models are vit, mlp" recipe --reference convnet
refused 2 "model.config: keys such as \{hidden: 64\} is needed here|model.config: keys" plan recipe.yaml --set model.config=64
refused 2 "^error: --set data.config.sample: .*did you mean samples" plan recipe.yaml --set data.config.sample=3
refused 2 "this key is for model.type module" plan mlp-mnist --set model.path=./model.so
refused 2 "model.type module needs model.path" plan recipe.yaml --set model.path=
cd ..

# ---- a table of rows and classes: fields are of the type that the model reads, whatever integers the file has
cat >ids.c <<'END'
#include <lockstep/lockstep.h>
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self;
    const ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, batch, 2)), x = ls_input(g, "x", LS_TYPE(LS_F32, batch)),
                   h = ls_concat(g, 1, 2, (ls_value[]){ ls_reshape(g, ls_embedding(g, "rows", ids, 100, 3), batch, -1), ls_reshape(g, x, batch, 1) }),
                   y = ls_linear(g, "fc", h, 3);
    ls_output(g, "kind", y);
#ifdef OWN_LOSS
    ls_loss(g, "loss", ls_cross_entropy(g, y, ls_input(g, "kind", LS_TYPE(LS_I32, batch))), 1, LS_BY_VALID, "kind");
#endif
    return ls_graph_finish(g);
}
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module m = { LS_MODULE_DEFAULTS, .name = "ids", .version = "1", .build = build };
    return &m;
}
END
build ids.c -o ids.so; build -DOWN_LOSS ids.c -o own.so
npy() { printf "\\223NUMPY\\001\\000\\166\\000%-117s\\n" "{'descr': '$1', 'fortran_order': False, 'shape': (40, 2), }"; for ((i = 0; i < 80; i++)); do printf "\\x$(printf %02x $((i * 7 % 100)))$2"; done; }
npy '<i4' '\0\0\0' >i32.npy; npy '<i8' '\0\0\0\0\0\0\0' >i64.npy; npy '|u1' '' >u8.npy
(echo a,b,x,kind; for ((i = 0; i < 80; i += 2)); do echo $((i * 7 % 100)),$(((i + 1) * 7 % 100)),$i,$((i / 2 % 3)); done) >t.csv
cat >ids.yaml <<END
model: {type: module, path: ./ids.so}
loss: {type: cross_entropy, of: kind}
data: {type: arrays, train: {ids: i32.npy, x: t.csv, kind: t.csv}, eval_fraction: 0.2}
train: {epochs: 2, global_batch: 8}
run: {name: i32}
threads: 1
END
try 0 train ids.yaml
for file in i64.npy u8.npy "t.csv:a,b"; do
    try 0 train ids.yaml --set run.name=other --set data.train.ids=$file
    cmp runs/i32/checkpoints/latest/model.safetensors runs/other/checkpoints/latest/model.safetensors || bad "$file gives other numbers than i32.npy"
    rm -r runs/other
done
try 0 data ids.yaml; has out '^ids +i32 \[2\] '; has out '^x +f32 '; has out '^kind +i32 \[\] +0 +2 '
has out '31 samples; i32.npy \(31 of 40 rows\)' # each class gives its share, as a model of the recipe's own
try 0 predict ids.yaml --out q.csv; has q.csv '^sample,row,kind,kind.probability.0'
grep -v ^loss: ids.yaml >own.yaml # a loss of the module's own, by the entries that count
try 0 train own.yaml --set model.path=./own.so --set run.name=own
try 0 data own.yaml --set model.path=./own.so; has out '^kind +i32 '
# weights of classes, the same on two ranks; drawn samples; a number for each class of the output, said before data are read
try 0 train ids.yaml --set run.name=weighed --set train.micro_batch=4 --set loss.class_weights=balanced; has err 'cross_entropy_unweighted [0-9.]+'
try 0 train ids.yaml --set run.name=weighed2 --set train.micro_batch=4 --set loss.class_weights=balanced --workers 2
cmp runs/weighed/checkpoints/latest/model.safetensors runs/weighed2/checkpoints/latest/model.safetensors || bad "ranks change a bit"
cmp -s runs/weighed/checkpoints/latest/model.safetensors runs/i32/checkpoints/latest/model.safetensors && bad "weights change nothing"
try 0 train ids.yaml --set run.name=drawn --set data.sampler=balanced
refused 2 'loss: class_weights: 2 numbers for 3 classes' plan ids.yaml --set 'loss.class_weights=[1, 2]'
{ head -c 136 i64.npy; printf '\0\0\0\0\1\0\0\0'; tail -c +145 i64.npy; } >big.npy
try 1 train ids.yaml --set run.name=big --set data.train.ids=big.npy; has err "big.npy row 0: ids\[1\] is 4294967296, which is not an integer of 32 bits"
npy '<f4' '\0\0\0' >f32.npy; refused 2 'f32.npy: it is f32 \[40, 2\], and "ids" must be integers: save array.astype\(.int32.\)' train ids.yaml --set run.name=none --set data.train.ids=f32.npy

# ---- adapters of its layers: they are trained beside a base that stays as it is
sed 's/(void)self;$/(void)self; LS_TRY(ls_add_lora(g, .rank = 2));/' ids.c >lora.c; build lora.c -o lora.so
sed 's/.rank = 2/.rank = 4/' lora.c >large.c; build large.c -o large.so
base=$PWD/runs/i32/checkpoints/latest
try 1 train ids.yaml --set run.name=lora --set model.path=./lora.so --set model.init="$base" --set 'train.freeze="* !pattern:*.lora_?.weight"'
has err '2 missing: fc.lora_A.weight'
try 0 train ids.yaml --set run.name=lora --set model.path=./lora.so --set model.init="$base" --set 'model.reset="pattern:*.lora_?.weight"' \
    --set 'train.freeze="* !pattern:*.lora_?.weight"' --set optimizer.lr=0.01
has err '[0-9]+ of the parameters trained \([0-9.]+ %\)'; has out 'eval loss'
try 0 predict runs/lora --module ./lora.so --out adapted.csv; cmp -s q.csv adapted.csv && bad "adapters change no prediction"
refused 2 'rank 4 for a layer of 7 inputs and 3 outputs: .* in fc$' train ids.yaml --set run.name=none --set model.path=./large.so

# ---- samples of the module's own: each of its functions gets its own set
cat >set.c <<'END'
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
typedef struct mine {
    ls_dataset set;
    char *name;
} mine;
static const mine *own(const ls_dataset *d)
{
    if (strcmp(((const mine *)d)->name, "mine"))
        abort();
    return (const mine *)d;
}
static ls_status read_one(const ls_dataset *d, int64_t i, void *const *to)
{
    for (int k = 0; k < own(d)->set.n_fields; k++)
        if (to[k])
            *(float *)to[k] = (float)i / 32;
    return LS_OK;
}
static ls_status read_drawn(const ls_dataset *d, int64_t i, uint64_t draw, void *const *to)
{
    LS_TRY(read_one(d, i, to));
    if (to[0])
        *(float *)to[0] += (float)(draw % 8);
    return LS_OK;
}
static void mix(const ls_dataset *d, uint64_t draw, int64_t rows, void *const *to)
{
    (void)draw, (void)rows;
    if (to[0])
        *(float *)to[0] *= (float)own(d)->set.n_fields;
#ifdef IN_MIX
    IN_MIX;
#endif
}
static char *file(const ls_dataset *d, int64_t i)
{
    (void)i;
    return strdup(own(d)->name);
}
static ls_status data(ls_dataset **out, void *self, ls_split split, const void *settings)
{
    static const ls_field fields[] = { { .name = "x", .type = { .dtype = LS_F32 } } };
    static mine sets[2];
    (void)self, (void)settings;
    sets[split] = (mine){ { .name = "n", .source = "s", .split = split, .n = 32, .n_fields = 1, .fields = fields, .read = read_one,
                            .read_drawn = read_drawn, .mix = mix, .file = file }, "mine" };
    *out = &sets[split].set;
    return LS_OK;
}
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self;
    ls_loss(g, "l", ls_square(g, ls_linear(g, "fc", ls_reshape(g, ls_input(g, "x", LS_TYPE(LS_F32, batch)), batch, 1), 1)), 1, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module m = { LS_MODULE_DEFAULTS, .name = "set", .version = "1", .build = build, .data = data };
    return &m;
}
END
build set.c -o set.so
printf 'model: {type: module, path: ./set.so}\ndata: {type: module}\ntrain: {epochs: 1, global_batch: 8}\nthreads: 1\nrun: {name: set}\n' >set.yaml
try 0 train set.yaml; try 0 data set.yaml; has out ' mine$'
build '-DIN_MIX=exit(0)' set.c -o set.so; rm -r runs/set
try 1 train set.yaml; once err "set 1 \(./set.so\): mix called exit"

# ---- hostile ones
cat >recipe.yaml <<END
model: {type: module, path: ./bad.so}
data: {type: module}
train: {epochs: 1, global_batch: 8}
threads: 1
END
# module DEFINITIONS: bad.so, with the functions that it has besides, and what its table has in place of the defaults
module() {
    cat >bad.c <<END
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <math.h>
static int calls;
#ifdef BEFORE
BEFORE
#endif
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    (void)self, (void)calls;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, 2));
#ifdef IN_BUILD
    IN_BUILD;
#endif
    ls_loss(g, "l", ls_square(g, ls_linear(g, "fc", x, 1)), 1, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}
static ls_status read_one(const ls_dataset *d, int64_t i, void *const *to)
{
    (void)d;
#ifdef IN_READ
    IN_READ;
#endif
    if (to[0])
        ((float *)to[0])[0] = ((float *)to[0])[1] = (float)i;
    return LS_OK;
}
#ifdef IN_SET_CLOSE
static void close_set(ls_dataset *d)
{
    (void)d;
    IN_SET_CLOSE;
}
#endif
static ls_status data(ls_dataset **out, void *self, ls_split split, const void *settings)
{
    static const ls_field fields[] = { { .name = "x", .type = { LS_F32, 1, { 2 } } } };
    static ls_dataset sets[2];
    (void)self, (void)settings;
    sets[split] = (ls_dataset){ .name = "n", .source = "s", .split = split, .n = 32, .n_fields = 1, .fields = fields, .read = read_one };
    *out = &sets[split];
#ifdef IN_SET_CLOSE
    sets[split].close = close_set;
#endif
#ifdef IN_DATA
    IN_DATA;
#endif
    return LS_OK;
}
static void close_it(void *self)
{
    (void)self;
#ifdef IN_CLOSE
    IN_CLOSE;
#endif
}
static ls_status open_it(void **self, const void *settings)
{
    *self = NULL;
    (void)settings;
#ifdef IN_OPEN
    IN_OPEN;
#endif
    return LS_OK;
}
#ifndef SYMBOL
#define SYMBOL lockstep_module
#endif
#ifndef TABLE
#define TABLE .name = "bad"
#endif
#pragma GCC diagnostic ignored "-Woverride-init"
LS_MODULE_EXPORT const ls_model_module *SYMBOL(void)
{
#ifdef IN_SYMBOL
    IN_SYMBOL;
#endif
    static const ls_model_module m = { LS_MODULE_DEFAULTS, .name = "bad", .version = "0", .build = build, .data = data, .open = open_it, .close = close_it, TABLE };
    return &m;
}
END
    build "$@" bad.c -o bad.so
}
module; try 0 train recipe.yaml # it is a sound one
case ${4-} in # which is how the others are known to be looked at
*address*)
    module '-DIN_OPEN=char *volatile eight = malloc(8); eight[8] = 1; free(eight)'
    try 1 plan recipe.yaml; has err "AddressSanitizer: heap-buffer-overflow"
    ;;
esac
echo "this is not an ELF file" >bad.so; refused 2 "recipe.yaml:1: model.path: ./bad.so does not load: .*(invalid ELF header|file too short)" plan recipe.yaml
: >bad.so; refused 2 "./bad.so does not load" plan recipe.yaml
rm bad.so; mkdir bad.so; refused 2 "./bad.so does not load|is a directory" plan recipe.yaml; rmdir bad.so
mkfifo bad.so; refused 2 "./bad.so does not load: .*it is a pipe, not a regular file" plan recipe.yaml; rm bad.so # opening it would wait for ever
module -DSYMBOL=another; refused 2 "has no symbol lockstep_module: it is not a module" plan recipe.yaml
module '-DTABLE=.size = 8'; refused 2 "describes itself with 8 bytes, this version with [0-9]+" plan recipe.yaml
module '-DTABLE=.abi = 99'; refused 2 "was built for ABI 99 of the library, this is ABI 6" plan recipe.yaml
module '-DTABLE=.abi = 3, .size = 8'; refused 2 "was built for ABI 3 of the library, this is ABI 6: .*; since ABI 4 a module declares its keys as rows and calls no ls_config_int" plan recipe.yaml
# one that was not compiled again calls what is not there any more, before it can be asked for its ABI
module '-DIN_BUILD=extern long ls_config_int(ls_graph *); ls_config_int(g)'; refused 2 "undefined symbol: ls_config_int; since ABI 4 a module declares its keys as rows" plan recipe.yaml
module '-DTABLE=.name = NULL'; refused 2 "name, version and build must be set" plan recipe.yaml
module '-DBEFORE=static const ls_module_key keys[] = { { "a", LS_MODULE_INT, 0, "10", 0, 9, NULL, "a number" }, LS_MODULE_KEYS_END };' '-DTABLE=.settings = 8, .keys = keys'
refused 2 "^error: recipe.yaml:1: model.path: bad 0 \(./bad.so\): the row of its key a: default: 10 is out of range \(from 0, up to 9\)" plan recipe.yaml
module '-DTABLE=.library = (void (*)(void))abort'; refused 2 "has a copy of the library of its own" plan recipe.yaml
module '-DIN_BUILD=extern void nothing_like_it(ls_graph *); nothing_like_it(g)'
refused 2 "does not load: .*nothing_like_it" plan recipe.yaml
module '-DIN_BUILD=return ls_fail(LS_E_ARG, "I will not")'; refused 2 "bad 0 \(./bad.so\): I will not|I will not" plan recipe.yaml
module '-DIN_BUILD=return LS_OK'; refused 2 "bad 0 \(./bad.so\) declares no loss" plan recipe.yaml
module '-DIN_BUILD=ls_linear(g, calls++ % 2 ? "a" : "b", x, 1)'; refused 2 "builds another model each time: first .*, then" plan recipe.yaml
module '-DIN_BUILD=if (!ls_graph_is_evaluation(g)) x = ls_linear(g, "only", x, 2)'; refused 2 "the same parameters in training and in evaluation: parameter only.weight f32 \[2, 2\] in training" plan recipe.yaml
for at in OPEN BUILD DATA; do
    for workers in 1 2; do
        module "-DIN_$at=exit(0)"
        try 1 train recipe.yaml --set run.name=exit --workers $workers; has err "bad 0 \(./bad.so\): $(echo $at | tr A-Z a-z) called exit\(\): a function of a module returns a status"
        rm -rf runs/exit
    done
done
# also in the loader's thread, and at the end
exits() { # AT WORDS
    module "-DIN_$1=exit(0)"; try 1 train recipe.yaml --set run.name=exit; once err "^error: bad 0 \(./bad.so\): $2 called exit\(\)"
    has runs/exit/result.json "\"state\":\"$3\""; rm -rf runs/exit
}
exits READ read failed
exits SET_CLOSE "close of its data" finished; exits CLOSE close finished
# on one rank of two: the parent says it once, and which rank it was
for rank in 0 1; do
    module "-DIN_READ=if (getenv(\"LOCKSTEP_RANK\") && getenv(\"LOCKSTEP_RANK\")[0] == $((48 + rank))) exit(0)"
    try 1 train recipe.yaml --set run.name=exit --workers 2 --set train.micro_batch=2
    once err "^error: rank $rank: bad 0 \(./bad.so\): read called exit\(\): a function of a module returns a status"; once err "^error: "
    has runs/exit/result.json "\"state\":\"failed\".*\"error\":\"rank $rank: bad 0 .*read called exit"
    rm -rf runs/exit
done
# a process that the rank started holds the lock of the run a moment longer
module -include unistd.h '-DIN_READ=if (getenv("LOCKSTEP_RANK")) { if (!fork()) { usleep(500000); _exit(0); } exit(0); }'
try 1 train recipe.yaml --set run.name=exit --workers 2 --set train.micro_batch=2
has runs/exit/result.json '"state":"failed".*read called exit'; rm -rf runs/exit
module '-DIN_OPEN=return ls_fail(LS_E_IO, "the table is not there")'; refused 1 "bad 0 \(./bad.so\): the table is not there" plan recipe.yaml
module '-DIN_DATA=*out = NULL'; refused 2 "data: gives no data set" train recipe.yaml --set run.name=none
module '-DIN_DATA=sets[split].n = 0'; refused 2 "data: n must be at least 1" train recipe.yaml --set run.name=none
module '-DIN_DATA=sets[split].fields = NULL'; refused 2 "data: it has no fields" train recipe.yaml --set run.name=none
module '-DTABLE=.data = NULL'; refused 2 "bad 0 \(./bad.so\) has no data: name another data.type" train recipe.yaml --set run.name=none
module '-DIN_SYMBOL=exit(0)'; try 1 plan recipe.yaml; once err "./bad.so: lockstep_module called exit"
module '-DBEFORE=__attribute__((constructor)) static void first(void) { exit(0); }'
# (ThreadSanitizer calls an exit() inside dlopen a mistake of its user, whoever opened)
try $([ "${4-}" = thread ] && echo 66 || echo 1) plan recipe.yaml; once err "./bad.so: loading it called exit"
# a crash is told by the rank that others miss
module '-DIN_BUILD=if (getenv("LOCKSTEP_RANK") && getenv("LOCKSTEP_RANK")[0] == 49) abort()'
try 1 train recipe.yaml --set run.name=crash --workers 2; has err "rank 1: killed by signal 6 \(SIGABRT\)"
# ranks that build different models
module '-DIN_BUILD=if (getenv("LOCKSTEP_RANK") && getenv("LOCKSTEP_RANK")[0] == 49) x = ls_linear(g, "more", x, 2)'
try 2 train recipe.yaml --set run.name=apart --workers 2
has err "rank 1 would run another program than rank 0; the first difference is line [0-9]+:"
has err "^ +rank 0: program micro on cpu, [a-z0-9]+, window [0-9]+$"; has err "^ +rank 1: program micro on cpu, [a-z0-9]+, window [0-9]+$"
has err "All ranks need the same recipe, the same build and the same instruction set \(isa:\)"
finish
