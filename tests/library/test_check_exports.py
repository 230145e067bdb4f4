"""check_exports.py finds what is planted: exported names that are not public, and public ones that are not exported."""
import unittest

from check_exports import marked_names, offences

HEADERS = ["""
#define L2L_API __attribute__((visibility("default")))
class L2L_API Error : public std::runtime_error {
};
class L2L_API Source final : public Error {
};
class L2L_API Trainer {
  struct L2L_HIDDEN Implementation;
};
struct Options { int steps() const; };
L2L_API Options load_options(const std::filesystem::path& file);
L2L_API const char* version();
L2L_API void set_aside_checkpoints(const std::filesystem::path& directory,
                                   std::int64_t steps = -1);
"""]
PUBLIC = ["typeinfo for l2l::Error", "typeinfo name for l2l::Error", "vtable for l2l::Error", "l2l::Error::~Error()",
          "vtable for l2l::Source",
          "l2l::Trainer::Trainer(l2l::Options)", "l2l::Trainer::options() const", "l2l::Trainer::operator=(l2l::Trainer&&)",
          "l2l::load_options[abi:cxx11](std::filesystem::__cxx11::path const&)", "l2l::version()",
          "l2l::set_aside_checkpoints(std::filesystem::__cxx11::path const&, long)"]
PLANTED = ["l2l::runtime::Engine::train(unsigned long, double)", "l2l::Trainer::Implementation::step()",
           "typeinfo for l2l::Trainer::Implementation", "l2l::Options::steps() const", "l2l::json_text(int)",
           "std::vector<l2l::Trainer, std::allocator<l2l::Trainer> >::push_back(l2l::Trainer const&)",
           "vtable for l2l::eps::ParameterStore", "void l2l::log<int>(int)", "answer"]


VERSION = "L2L_0.1"


def check(symbols, names):
    return list(offences([f"{symbol}@@{VERSION}" for symbol in symbols], names, VERSION))


class CheckExports(unittest.TestCase):
    names = marked_names(HEADERS)

    def test_names_of_headers(self):
        self.assertEqual(self.names, {"Error", "Source", "Trainer", "load_options", "version", "set_aside_checkpoints"})

    def test_public_names_pass(self):
        self.assertEqual(check(PUBLIC, self.names), [])

    def test_a_name_without_the_version_is_found(self):
        public = [f"{symbol}@@{VERSION}" for symbol in PUBLIC]
        for found, its in ((["l2l::version()"], "none"), (["l2l::version()@@L2L_0.0"], "L2L_0.0")):
            self.assertEqual(list(offences(public + found, self.names, VERSION)),
                             [f"exported with version {its} instead of {VERSION}: l2l::version()"])

    def test_each_planted_name_is_found(self):
        for symbol in PLANTED:
            with self.subTest(symbol=symbol):
                self.assertEqual(check(PUBLIC + [symbol], self.names),
                                 [f"exported, but in no public header: {symbol}"])

    def test_each_missing_name_is_found(self):
        for name in self.names:
            with self.subTest(name=name):
                rest = [symbol for symbol in PUBLIC if f"l2l::{name}" not in symbol]
                self.assertEqual(check(rest, self.names), [f"in a public header, but not exported: {name}"])


if __name__ == "__main__":
    unittest.main()
