// kc-replay-<back end> PLAN OPTION...: argv to exit code. The result is one JSON object, also when something failed; the
// stage that started us reads it from the file that it named: kernels may print to standard output.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/freed_memory.hpp"
#include "replay/address_space.hpp"
#include "replay/driver.hpp"
#include "replay/engine.hpp"
#include "replay/quiet.hpp"
#include "replay/report.hpp"
#include "replay/standby.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr char k_usage[] =
    "usage: kc-replay-<back end> PLAN [--iterations N] [--warmup N] [--flush-cache] [--no-compare] [--interleave]\n"
    "       [--dump-output DIR] [--changes-only] [--grid X,Y,Z] [--block X,Y,Z] [--lds BYTES]%s [--no-verify]\n"
    "       [--repeats N] [--repeat-ms MS] [--unsettled-repeats N] [--keep-differing N] [--restore-all] [--untimed] [--quiet] [--report FILE]\n"
    "       [--order SEED] [--states DIR] [--states-within-ms MS] [--parent PID] [--progress FILE]\n"
    "       [--set NAME=VALUE]...\n"
    "       kc-replay-<back end> --standby DEVICE      the same words through standard input\n"
    "       kc-replay-<back end> --keep DEVICE         the same for one replay after the other\n"
    "       kc-replay-<back end> --keep-timed DEVICE   the same for replays that are timed\n"
    "Run by kc-replay and kc-validate; the plan is theirs.\n";

// The whole text as a number of that type.
template <typename Number>
bool number(std::string_view text, Number& out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc{} && end == text.data() + text.size();
}

template <typename Number>
bool triple(std::string_view text, std::optional<std::array<Number, 3>>& out) {
  out.emplace();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t length = std::min(text.find(','), text.size());
    if ((length == text.size()) != (axis == 2) || !number(text.substr(0, length), (*out)[axis]) || (*out)[axis] == 0) {
      return false;
    }
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return true;
}

// False on anything that is not understood.
bool parse(int argc, char** argv, const Driver& driver, std::string& plan, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--flush-cache") options.flush_cache = true;
    else if (word == "--no-compare") options.compare = false;
    else if (word == "--interleave") options.interleave = true;
    else if (word == "--restore-all") options.restore_all = true;
    else if (word == "--untimed") options.timed = false;
    else if (word == "--quiet") options.quiet = true;
    else if (word == "--no-verify") options.verify = false;
    else if (word == "--changes-only") options.changes_only = true;
    else if (driver.turn_on(word)) continue;
    else if (!word.starts_with("--") && plan.empty()) plan = word;
    else if (value == nullptr) return false;
    else if (word == "--iterations" && number(value, options.iterations) && options.iterations > 0) ++i;
    else if (word == "--warmup" && number(value, options.warmup)) ++i;
    else if (word == "--repeats" && number(value, options.repeats)) ++i;
    else if (word == "--repeat-ms" && number(value, options.repeat_ms)) ++i;
    else if (word == "--unsettled-repeats" && number(value, options.unsettled_repeats)) ++i;
    else if (word == "--keep-differing" && number(value, options.keep_differing)) ++i;
    else if (word == "--order" && number(value, options.order.emplace())) ++i;
    else if (word == "--lds" && number(value, options.dynamic_lds_bytes.emplace())) ++i;
    else if (word == "--states-within-ms" && number(value, options.states_within_ms)) ++i;
    else if (word == "--set" && std::strchr(value, '=') != nullptr && ::putenv(argv[i + 1]) == 0) ++i;
    else if (word == "--parent" && number(value, options.parent)) ++i;
    else if (word == "--report") options.report_file = argv[++i];
    else if (word == "--progress") options.progress_file = argv[++i];
    else if (word == "--dump-output") options.dump_folder = argv[++i];
    else if (word == "--states") options.states_folder = argv[++i];
    else if (word == "--grid" && triple(value, options.grid)) ++i;
    else if (word == "--block" && triple(value, options.block)) ++i;
    else return false;
  }
  return !plan.empty();
}

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return 2;
    case ErrorCode::not_found:
    case ErrorCode::damaged:
    case ErrorCode::malformed: return 3;
    case ErrorCode::unsupported: return 6;
    default: return 4;
  }
}

// A report that cannot be written is a crash to the one who waits for it.
void tell(const Options& options, const std::string& report) {
  std::FILE* file = options.report_file.empty() ? stdout : std::fopen(options.report_file.c_str(), "w");
  if (file == nullptr) return;
  std::fputs(report.c_str(), file);
  if (file != stdout) std::fclose(file);
}

int fail(const Options& options, const Error& error) {
  tell(options, report_error(error));
  return exit_code_of(error.code);
}

int run(int argc, char** argv, Driver& driver) {
  std::string path;
  Options options;
  if (!parse(argc, argv, driver, path, options)) {
    std::string own;
    for (const auto& [word, turned] : driver.traits().switches) own += " [" + std::string(word) + "]";
    std::fprintf(stderr, k_usage, own.c_str());
    return 2;
  }
  if (options.quiet) be_quiet();
  // Nobody would read the report once the stage that asked for it was killed, and a kernel that hangs would hold the
  // device for good.
  if (!options.report_file.empty()) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have been killed before that.
  if (options.parent != 0 && ::getppid() != options.parent) return 4;
  Result<Plan> plan = read_plan(path, driver);
  if (!plan) return fail(options, plan.error());
  plan.value().timed = options.timed;
  const Result<std::vector<Range>> ranges = ranges_of(plan.value());
  if (!ranges) return fail(options, ranges.error());
  std::vector<Range> with_pages;
  std::ranges::copy_if(ranges.value(), std::back_inserter(with_pages),
                       [&driver](const Range& range) { return driver.holds_with_pages(range); });
  if (Result<void> held = hold(with_pages, argv); !held) return fail(options, held.error());
  if (Result<void> opened = driver.open(plan.value()); !opened) {
    if (driver.was_crowded_out()) start_again(argv);
    return fail(options, opened.error());
  }
  Engine engine(plan.value(), options, driver);
  const Result<Outcome> outcome = engine.run(ranges.value());
  if (!outcome && engine.faulted()) {
    tell(options, report_fault(outcome.error()));
    return 4;
  }
  if (!outcome) return fail(options, outcome.error());
  tell(options, report_outcome(outcome.value(), driver.opened()));
  return 0;
}

}  // namespace

int replay_main(int argc, char** argv, Driver& driver) {
  core::keep_freed_memory();
  Words words(argc, argv, driver);
  int code = 0;
  while (words.next()) {
    code = run(words.count(), words.values(), driver);
    words.tell(code);
    if (!words.are_kept()) break;
    // What comes next must find nothing of this replay. One that did not complete may have left anything.
    if (code != 0) break;
    if (const Result<void> given = driver.give_back(); !given) {
      std::fprintf(stderr, "kc-replay: this process ends with its replay: %s\n", given.error().message.c_str());
      break;
    }
    words.tell_ready();
  }
  return code;
}

}  // namespace kerncap::replay
