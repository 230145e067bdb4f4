#include "tools/train/signals.h"

#include <pthread.h>

#include <utility>

#include "tools/progress.h"
#include "tools/tables.h"

namespace l2l::tools {
namespace {

using std::chrono::steady_clock;

constexpr std::pair<int, const char*> kTaken[] = {{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"},
                                                  {SIGXCPU, "SIGXCPU"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};
constexpr std::chrono::seconds kKeyboard{3};

const char* name_of(int signal) {
  for (const auto& [number, name] : kTaken) {
    if (number == signal) return name;
  }
  return "";
}

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// As if the program had never asked for it.
void act_as_usual(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
}

// Wakes the thread to end it.
int waking_signal() { return SIGRTMIN; }

}  // namespace

Signals::Signals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&taken_);
  sigaddset(&taken_, waking_signal());
  for (const auto& [signal, name] : kTaken) {
    if (!ignored(signal)) sigaddset(&taken_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken_, nullptr);
  thread_ = std::thread([this] { serve(); });
}

Signals::~Signals() {
  done_ = true;
  pthread_kill(thread_.native_handle(), waking_signal());
  thread_.join();
}

void Signals::begin(Trainer& trainer) {
  const std::lock_guard lock(mutex_);
  directory_ = trainer.options().checkpoint.directory.string();
  trainer_ = &trainer;
  begun_ = true;
}

void Signals::end() {
  const std::lock_guard lock(mutex_);
  trainer_ = nullptr;
}

std::string Signals::stopped_by() const { return name_of(stopped_by_); }

void Signals::show_step(std::int64_t completed, double step_ms) {
  completed_ = completed;
  step_ms_ = step_ms;
  saving_ = Saving::none;
}

void Signals::serve() {
  for (int signal = 0; sigwait(&taken_, &signal) == 0 && !done_;) {
    begun_ ? answer(signal) : act_as_usual(signal);
  }
}

void Signals::answer(int signal) {
  if (signal == SIGUSR1) {
    ask(&Trainer::request_save);
  } else if (signal == SIGUSR2) {
    print_message("SIGUSR2: " + what_now("running") + "; the threads:\n" + Trainer::describe_threads());
  } else {
    ask_to_stop(signal);
  }
}

void Signals::ask(void (Trainer::*request)()) {
  const std::lock_guard lock(mutex_);
  if (trainer_ != nullptr) (trainer_->*request)();
}

void Signals::ask_to_stop(int signal) {
  const bool deliberate = signal == SIGINT || signal == SIGTERM;
  const bool first = stopped_by_ == 0;
  if (first) stopped_by_ = signal, ask(&Trainer::request_stop);
  if (!first && !deliberate) return;  // the kernel repeats XCPU every second
  const steady_clock::time_point now = steady_clock::now();
  const bool late = signal == SIGINT && now - last_stop_ > kKeyboard;
  last_stop_ = now;
  stops_ = first ? 1 : late ? 2 : stops_ + 1;
  const std::string name = signal == SIGINT ? "Ctrl-C" : name_of(signal);
  if (stops_ == 1) {
    print_message(name + ": " + what_now("finishing") + "; " + (deliberate ? name : "SIGTERM") +
                  " twice more to stop without saving");
  } else if (stops_ == 2) {
    print_message(name + " again: " + what_now("finishing") + "; once more" + (signal == SIGINT ? " within 3 s" : "") +
                  " to stop without saving");
  } else {
    act_as_usual(signal);
  }
}

std::string Signals::what_now(const std::string& verb) {
  const std::lock_guard lock(mutex_);
  if (saving_ == Saving::runs) return "saving in " + directory_;
  const std::string saves = stopped_by_ != 0 && saving_ != Saving::done ? ", then saving in " + directory_ : "";
  if (validating_) {
    return (stopped_by_ != 0 ? "dropping" : verb) + " the validation after step " + std::to_string(completed_) + saves;
  }
  if (saving_ == Saving::done) return "ending the run";
  const double seconds = step_ms_ * 1e-3;
  const std::string about = seconds >= 1 ? print(" (about %.0f s)", seconds) : "";
  return verb + " step " + std::to_string(completed_ + 1) + about + saves;
}

}  // namespace l2l::tools
