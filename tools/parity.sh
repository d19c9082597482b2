#!/bin/sh
# make parity: reads what build/lockstep exports with a live PyTorch, and the other way round; trains in a bucket of a live S3 server; trains adapters beside PEFT, and quantises weights beside bitsandbytes; reads event files with a live TensorBoard where there is one;
# renders published chat templates where there is a folder of them;
# runs exported models in llama.cpp and transformers; trains a small Llama over axes tp, cp and pp;
# trains the ViT of tutorial 1 with both and compares losses and weights. PyTorch comes
# from a virtual environment of its own, .venv, or is that of PYTHON=/path/to/python. Further arguments go to tools/parity.py.
# (pip's default torch wheel for Linux brings gigabytes of CUDA along; PIP_INDEX_URL can name PyTorch's CPU index instead.)
set -eu
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
    PYTHON=.venv/bin/python
    if [ ! -x "$PYTHON" ]; then
        python3 -m venv .venv || { echo "parity: python3 -m venv failed; on Debian: apt-get install python3-venv" >&2; exit 1; }
    fi
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r tools/golden/requirements.txt || {
        echo "parity: could not install tools/golden/requirements.txt into .venv; PYTHON=/path/to/python with these packages does too" >&2
        exit 1
    }
fi
"$PYTHON" tools/golden/pt.py check build/lockstep tests/golden/pt_*.pt
"$PYTHON" tools/golden/dcp.py check build/lockstep
"$PYTHON" tools/golden/strict.py check build/lockstep
"$PYTHON" tools/parity_tensorboard.py build/lockstep
if [ -n "${LOCKSTEP_DATA:-}" ]; then "$PYTHON" tools/parity_gguf.py build/lockstep; fi # (its tokenizers lie there)
PYTHON="$PYTHON" tests/build/docs.sh . build/lockstep docs/start/quickstart.md docs/howto/own-documents.md
"$PYTHON" tools/parity_peft.py build/lockstep
"$PYTHON" tools/parity_nf4.py build/lockstep
"$PYTHON" tools/parity_s3.py build/lockstep
"$PYTHON" tools/parity_templates.py build/tests/template_render
"$PYTHON" tools/parity_decoders.py build/lockstep
"$PYTHON" tools/parity_axes.py build/lockstep
"$PYTHON" tools/parity_encoders.py build/lockstep
"$PYTHON" tools/parity_resnet.py
# With two seeds the median over 8 steps varies by more than the factor of 2 that is allowed.
"$PYTHON" tools/parity_resnet.py --model resnet50 --seeds 6 --steps 8 --batch 16
exec "$PYTHON" tools/parity.py "$@"
