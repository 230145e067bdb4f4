"""tools/install.sh: what it asks of Meson, and what it says. Meson and ninja are stood in for: a real build takes minutes,
and tests/examples/test_embed.sh shows that what a build installs works.

    install_test.py SOURCE_ROOT
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
MESON = """#!/bin/bash
echo "meson $*" >>"$CALLS"
case $1 in
  setup) for option; do [[ $option != -Dprefix=* ]] || echo "${option#-Dprefix=}" >"$CALLS.prefix"; done ;;
  install)
    prefix=$(<"$CALLS.prefix")
    mkdir -p "$prefix/bin" "$prefix/lib/pkgconfig"
    touch "$prefix/lib/pkgconfig/l2l.pc"
    printf '#!/bin/sh\\necho l2l-train 1.2.3\\n' >"$prefix/bin/l2l-train"
    chmod +x "$prefix/bin/l2l-train" ;;
esac
"""


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "tree/tools").mkdir(parents=True)
        for name in ("install.sh", "install_packages.sh"):
            shutil.copy(ROOT / "tools" / name, self.path / "tree/tools")
        (self.path / "programs").mkdir()
        for name, text in [("meson", MESON), ("ninja", '#!/bin/sh\necho "ninja $*" >>"$CALLS"\n'),
                           ("dpkg-query", "#!/bin/sh\necho 'install ok installed;'\n")]:
            (self.path / "programs" / name).write_text(text)
            (self.path / "programs" / name).chmod(0o755)

    def install(self, *arguments):
        environment = {**os.environ, "PATH": f"{self.path}/programs:{os.environ['PATH']}", "CALLS": str(self.path / "calls")}
        return subprocess.run([self.path / "tree/tools/install.sh", *arguments], cwd=self.path, env=environment,
                              capture_output=True, text=True)

    def calls(self):
        file = self.path / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_a_release_without_tests_into_the_prefix(self):
        result = self.install("two words")
        self.assertEqual(result.returncode, 0, result.stderr)
        prefix = self.path.resolve() / "two words"
        setup, build, install = self.calls()
        for option in ("-Dbuildtype=release", "-Dtests=false", f"-Dprefix={prefix}"):
            self.assertIn(option, setup)
        self.assertEqual((build, install), ("ninja -C build-install", "meson install -C build-install --no-rebuild"))
        self.assertIn(f"installed l2l-train 1.2.3 in {prefix}", result.stdout)
        self.assertIn("-Wl,-rpath,$(pkg-config --variable=libdir l2l)", result.stdout)
        # what it says may be pasted into a shell
        exports = "".join(line + "\n" for line in result.stdout.splitlines() if line.startswith("  export "))
        said = subprocess.run(["bash", "-c", exports + 'command -v l2l-train; echo "$PKG_CONFIG_PATH"'], capture_output=True,
                              text=True).stdout.splitlines()
        self.assertEqual(said[0], f"{prefix}/bin/l2l-train")
        self.assertEqual(said[1].split(":")[0], f"{prefix}/lib/pkgconfig")

    def test_options_of_the_build(self):
        result = self.install("a", "-Dcuda=disabled", "-Dprefix=elsewhere")
        self.assertEqual(result.returncode, 0, result.stderr)
        setup = self.calls()[0]
        self.assertIn("-Dcuda=disabled", setup)
        self.assertLess(setup.index("elsewhere"), setup.index(f"-Dprefix={self.path.resolve()}/a"), "the last one counts")

    def test_what_cannot_be_done_is_refused_before_the_build(self):
        (self.path / "file").touch()
        for arguments, what in [([], "usage"), (["a", "b"], "usage"), (["a", "-D"], "usage"), (["a", "--destdir=b"], "usage"), (["--prefix=a"], "usage"), ([""], "usage"),
                                (["file/below"], "file/below cannot be written"), (["file"], "file cannot be written")]:
            with self.subTest(arguments=arguments):
                result = self.install(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(what, result.stderr)
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()
