#!/usr/bin/env bash
# Builds what tools/compare/eps.py compares the parameter server with, outside the tree: a venv with DeepSpeed from its
# PyPI source distribution (CPUAdam compiled here, for this CPU) and PyTorch 2.6.
#   tools/compare/eps_rivals.sh [--torch PYTHON] [FOLDER]
# FOLDER: default $TMPDIR/eps-rivals (/tmp where TMPDIR is not set); made or brought up to date. --torch: a python3 that has
# PyTorch, which is then used and not installed. Prints the python3 of the venv as its last line, the argument of eps.py.
set -euo pipefail

deepspeed=0.19.8
torch=2.6.0
torch_python=
folder=
while (($#)); do
  case $1 in
    --torch) torch_python=${2:?--torch needs a python3}; shift ;;
    -*) echo "usage: tools/compare/eps_rivals.sh [--torch PYTHON] [FOLDER]" >&2; exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
folder=${folder:-${TMPDIR:-/tmp}/eps-rivals}
python=$folder/venv/bin/python

site_of() {
  "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

make_venv() {
  [[ -x $python ]] || "${torch_python:-python3}" -m venv "$folder/venv"
  "$python" -m pip install --quiet setuptools wheel ninja py-cpuinfo packaging
  if [[ $torch_python ]]; then
    site_of "$torch_python" >"$(site_of "$python")/torch_of_another_venv.pth"
  else
    "$python" -m pip install --quiet "torch==$torch" numpy
  fi
  "$python" -c 'import torch' || { echo "no PyTorch in $folder/venv" >&2; return 1; }
}

# Only DeepSpeed comes as source; what it imports may come as wheels.
install_deepspeed() {
  "$python" -c "import deepspeed; assert deepspeed.__version__ == '$deepspeed'" 2>/dev/null && return
  "$python" -m pip install --quiet hjson msgpack psutil 'pydantic>=2' tqdm einops
  DS_BUILD_OPS=0 "$python" -m pip install --quiet --no-deps --no-build-isolation --no-binary deepspeed "deepspeed==$deepspeed"
}

export DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR=$folder/extensions PATH=$folder/venv/bin:$PATH
# The compiler of the release, whatever wraps it here.
unset CXX
mkdir -p "$folder"
make_venv >&2
install_deepspeed >&2
# Compiles on the first use.
"$python" -c 'from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load()' >&2
realpath --no-symlinks "$python"
