// kc-replay-<back end> PLAN OPTION...: argv to exit code. The result is one JSON object on standard output, also
// when something failed; the stage that started us reads it.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "replay/address_space.hpp"
#include "replay/driver.hpp"
#include "replay/engine.hpp"
#include "replay/report.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr char k_usage[] =
    "usage: kc-replay-<back end> PLAN [--iterations N] [--warmup N] [--flush-cache] [--no-compare] [--interleave]\n"
    "       [--dump-output DIR] [--grid X,Y,Z] [--block X,Y,Z] [--lds BYTES]\n"
    "Run by kc-replay and kc-validate; the plan is theirs.\n";

bool triple(const char* text, std::array<std::uint32_t, 3>& out) {
  return std::sscanf(text, "%u,%u,%u", &out[0], &out[1], &out[2]) == 3 && out[0] && out[1] && out[2];
}

// False on anything that is not understood.
bool parse(int argc, char** argv, std::string& plan, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const auto number = [&](std::uint64_t least) -> std::uint64_t {
      const unsigned long long parsed = value == nullptr ? 0 : std::strtoull(value, nullptr, 10);
      ++i;
      return parsed < least ? least : parsed;
    };
    std::array<std::uint32_t, 3> three{};
    if (word == "--flush-cache") options.flush_cache = true;
    else if (word == "--no-compare") options.compare = false;
    else if (word == "--interleave") options.interleave = true;
    else if (!word.starts_with("--") && plan.empty()) plan = word;
    else if (value == nullptr) return false;
    else if (word == "--iterations") options.iterations = number(1);
    else if (word == "--warmup") options.warmup = number(0);
    else if (word == "--lds") options.dynamic_lds_bytes = static_cast<std::uint32_t>(number(0));
    else if (word == "--dump-output") options.dump_folder = argv[++i];
    else if (word == "--grid" && triple(value, three)) options.grid = three, ++i;
    else if (word == "--block" && triple(value, three)) options.block = three, ++i;
    else return false;
  }
  return !plan.empty();
}

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return 2;
    case ErrorCode::not_found:
    case ErrorCode::damaged: return 3;
    case ErrorCode::unsupported: return 6;
    default: return 4;
  }
}

int fail(const Error& error) {
  std::fputs(report_error(error).c_str(), stdout);
  return exit_code_of(error.code);
}

}  // namespace

int replay_main(int argc, char** argv, Driver& driver) {
  std::string path;
  Options options;
  if (!parse(argc, argv, path, options)) {
    std::fputs(k_usage, stderr);
    return 2;
  }
  const Result<Plan> plan = read_plan(path);
  if (!plan) return fail(plan.error());
  const Result<std::vector<Range>> ranges = ranges_of(plan.value());
  if (!ranges) return fail(ranges.error());
  if (driver.holds_with_pages()) {
    if (Result<void> held = hold(ranges.value(), argv); !held) return fail(held.error());
  }
  if (Result<void> opened = driver.open(plan.value()); !opened) return fail(opened.error());
  Engine engine(plan.value(), options, driver);
  const Result<Outcome> outcome = engine.run(ranges.value());
  if (!outcome && engine.faulted()) {
    std::fputs(report_fault(outcome.error()).c_str(), stdout);
    return 4;
  }
  if (!outcome) return fail(outcome.error());
  std::fputs(report_outcome(outcome.value(), driver.about()).c_str(), stdout);
  return 0;
}

}  // namespace kerncap::replay
