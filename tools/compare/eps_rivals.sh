#!/usr/bin/env bash
# Builds what tools/compare/eps.py compares the parameter server with, outside the tree: a venv with DeepSpeed from its
# PyPI source distribution (CPUAdam compiled here, for this CPU) and PyTorch 2.6.
#   tools/compare/eps_rivals.sh [--torch PYTHON] [FOLDER]
# FOLDER: default $TMPDIR/eps-rivals (/tmp where TMPDIR is not set); made or brought up to date. --torch: a python3 that has
# PyTorch, which is then used and not installed. Says on standard error what it does, some of which takes minutes; prints the
# python3 of the venv as its last line, the argument of eps.py. Exit status 2 where PYTHON's PyTorch is not whole.
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

say() {
  echo "eps_rivals.sh: $*" >&2
}

# All that this python3 imports from but its own library: PyTorch may lie in one folder, and what it needs in others.
sites_of() {
  "$1" - <<'PYTHON'
import os, sys, sysconfig
own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
own |= {os.path.join(folder, "lib-dynload") for folder in own}
print(*(path for path in sys.path if os.path.isdir(path) and os.path.realpath(path) not in own), sep="\n")
PYTHON
}

# torch._dynamo, which DeepSpeed imports, needs packages that torch itself does without.
has_torch() {
  local said
  said=$("$1" -c 'import torch._dynamo' 2>&1) || { tail -1 <<<"$said" >&2; return 1; }
}

make_venv() {
  if [[ ! -x $python ]]; then
    say "making $folder/venv"
    "${torch_python:-python3}" -m venv "$folder/venv"
  fi
  say "installing what builds DeepSpeed"
  "$python" -m pip install --quiet setuptools wheel ninja py-cpuinfo packaging
  if [[ $torch_python ]]; then
    sites_of "$torch_python" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_another_venv.pth"
  else
    say "installing PyTorch $torch"
    "$python" -m pip install --quiet "torch==$torch" numpy
  fi
  has_torch "$python" || { say "no whole PyTorch in $folder/venv; with another FOLDER it is made anew"; return 1; }
}

# Only DeepSpeed comes as source; what it imports may come as wheels.
install_deepspeed() {
  "$python" -c "import deepspeed; assert deepspeed.__version__ == '$deepspeed'" 2>/dev/null && return
  say "installing DeepSpeed $deepspeed"
  "$python" -m pip install --quiet hjson msgpack psutil 'pydantic>=2' tqdm einops
  DS_BUILD_OPS=0 "$python" -m pip install --quiet --no-deps --no-build-isolation --no-binary deepspeed "deepspeed==$deepspeed"
}

export DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR=$folder/extensions PATH=$folder/venv/bin:$PATH
# The compiler of the release, whatever wraps it here.
unset CXX
if [[ $torch_python ]] && ! has_torch "$torch_python"; then
  say "--torch: $torch_python cannot import torch._dynamo: give another, or leave out --torch, which installs PyTorch $torch"
  exit 2
fi
mkdir -p "$folder"
make_venv >&2
install_deepspeed >&2
say "compiling CPUAdam, which takes some minutes the first time"
"$python" -c 'from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load()' >&2
realpath --no-symlinks "$python"
