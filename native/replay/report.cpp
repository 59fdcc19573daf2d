// JSON by hand: numbers, and strings with everything unusual escaped.
#include "replay/report.hpp"

#include <cstdio>

namespace kerncap::replay {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) out += (i == 0 ? "" : ",") + json_string(texts[i]);
  return out + "]";
}

std::string list(const std::vector<std::uint64_t>& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return out + "]";
}

std::string number(std::uint64_t value) { return std::to_string(value); }

}  // namespace

std::string report_outcome(const Outcome& outcome, const Driver::Opened& device) {
  std::string out = "{\"version\":1,\"outcome\":\"completed\"";
  out += ",\"device\":{\"name\":" + json_string(device.name) + ",\"isa\":" + json_string(device.isa);
  out += ",\"memory_bytes_per_s\":" + number(device.peaks.memory_bytes_per_s) + ",\"cache_bytes\":" + number(device.peaks.cache_bytes);
  out += ",\"compute_units\":" + number(device.peaks.compute_units) + ",\"clock_hz\":" + number(device.peaks.clock_hz) + "}";
  out += ",\"runtime_version\":" + json_string(device.runtime);
  out += ",\"baseline_ns\":" + list(outcome.baseline_ns) + ",\"variant_ns\":" + list(outcome.variant_ns);
  out += ",\"baseline_states\":" + list(outcome.baseline_states) + ",\"variant_states\":" + list(outcome.variant_states);
  out += ",\"first_state\":" + number(outcome.first_state);
  out += ",\"variant_loaded\":" + list({outcome.variant_address, outcome.variant_bytes});
  out += ",\"restored_bytes\":" + number(outcome.restored_bytes) + ",\"restore_ns\":" + number(outcome.restore_ns);
  out += ",\"compared\":" + std::string(outcome.compared ? "true" : "false");
  out += ",\"compared_bytes\":" + number(outcome.compared_bytes) + ",\"differences\":[";
  for (std::size_t i = 0; i < outcome.differences.size(); ++i) {
    const Difference& difference = outcome.differences[i];
    out += i == 0 ? "{" : ",{";
    out += "\"name\":" + json_string(difference.name) + ",\"base\":" + number(difference.base);
    out += ",\"first_offset\":" + number(difference.first_offset) + ",\"bytes\":" + number(difference.bytes) + "}";
  }
  out += "],\"outside\":[";
  for (std::size_t i = 0; i < outcome.outside.size(); ++i) {
    out += (i == 0 ? "" : ",") + list({outcome.outside[i].base, outcome.outside[i].bytes});
  }
  out += "],\"states\":" + number(outcome.states);
  out += ",\"repeats\":" + list({outcome.repeats, outcome.repeats_differing});
  out += ",\"unsettled\":" + std::string(outcome.unsettled ? "true" : "false");
  out += ",\"guarded_bytes\":" + number(outcome.guarded_bytes) + ",\"guarded\":[";
  for (std::size_t i = 0; i < outcome.guarded.size(); ++i) {
    const Guarded& guarded = outcome.guarded[i];
    out += std::string(i == 0 ? "{" : ",{") + "\"state\":" + number(guarded.state) + ",\"runs\":" + number(guarded.runs);
    out += ",\"fault\":" + json_string(guarded.fault) + ",\"failure\":" + json_string(guarded.failure) + "}";
  }
  out += "],\"ran_once\":" + json_string(outcome.ran_once);
  out += ",\"without\":" + list(outcome.without) + ",\"notes\":" + list(outcome.notes);
  return out + "}\n";
}

std::string report_error(const core::Error& error) {
  static constexpr const char* k_names[] = {"invalid_argument", "not_found", "damaged", "malformed", "no_space",
                                            "file_limit", "permission", "io", "timeout", "device", "unsupported",
                                            "stalled"};
  return "{\"version\":1,\"outcome\":\"failed\",\"code\":" + json_string(k_names[static_cast<int>(error.code)]) +
         ",\"message\":" + json_string(error.message) + "}\n";
}

std::string report_fault(const core::Error& error) {
  return "{\"version\":1,\"outcome\":\"faulted\",\"message\":" + json_string(error.message) + "}\n";
}

}  // namespace kerncap::replay
