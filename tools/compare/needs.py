"""What a comparison needs besides Python's own library: where it is missing, one line and exit status 2."""
import argparse
import importlib.util
import pathlib
import sys

PACKAGES = {"megatron": "megatron-core", "sklearn": "scikit-learn"}  # by the names that they are imported by


def fail(message):
    print(f"{pathlib.Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


def needs(*modules):
    """Ends the program where this Python lacks one of `modules`. To be called behind the arguments, so that --help works
    everywhere, and before the imports."""
    missing = [PACKAGES.get(name, name) for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        fail(f"needs {', '.join(missing)}, which this Python does not have; "
             f"to install: {sys.executable} -m pip install {' '.join(missing)}")


def tools_folder(name):
    """The type of an argument: the folder where L2L's programs are."""
    folder = pathlib.Path(name).resolve()
    if not any(folder.glob("l2l-*")):
        raise argparse.ArgumentTypeError(f"no program of L2L is in {name}: give BUILD/tools, or where L2L is installed")
    return folder
