#include "reference.hpp"

namespace kerncap::softgpu::test {

namespace {

template <class F, class T>
T as_bits(F value) { return std::bit_cast<T>(value); }

// The nearest bfloat16 to an exact sum, ties to even, found by looking at both neighbours.
std::uint32_t round_to_bf16(double exact) {
  if (exact == 0) return std::signbit(exact) ? 0x8000 : 0;
  if (std::isnan(exact)) return 0xFFC0;  // infinity minus infinity, as the host makes it
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(exact));
  if ((bits & 0x7FFFFFFF) == 0x7F800000) return bits >> 16;
  const auto value = [](std::uint32_t half) { return static_cast<double>(std::bit_cast<float>(half << 16)); };
  const std::uint32_t below = bits >> 16, above = below + 1;
  const double to_below = std::fabs(exact - value(below));
  // Halfway to the number after the largest one counts as infinity.
  const double next = std::isinf(value(above)) ? std::copysign(std::ldexp(1.0, 128), exact) : value(above);
  const double to_above = std::fabs(exact - next);
  if (to_below != to_above) return to_below < to_above ? below : above;
  return below % 2 == 0 ? below : above;
}

std::uint32_t add_halves(const std::string& operation, std::uint32_t old, std::uint32_t a) {
  std::uint32_t result = 0;
  for (unsigned shift : {0U, 16U}) {
    const auto x = static_cast<std::uint16_t>(old >> shift), y = static_cast<std::uint16_t>(a >> shift);
    std::uint32_t sum;
    if (operation == "pk_add_f16") {
      const auto exact = static_cast<_Float16>(std::bit_cast<_Float16>(x) + std::bit_cast<_Float16>(y));
      sum = std::bit_cast<std::uint16_t>(exact);
    } else {
      const auto wide = [](std::uint32_t half) { return static_cast<double>(std::bit_cast<float>(half << 16)); };
      sum = round_to_bf16(wide(x) + wide(y));
    }
    result |= sum << shift;
  }
  return result;
}

template <class F, class T>
std::uint64_t float_operation(const std::string& operation, T old, T a, T b, bool flush) {
  const auto number = [&](T bits) {
    const F value = std::bit_cast<F>(bits);
    return flush && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(F{0}, value) : value;
  };
  const F x = number(old), y = number(a);
  if (operation.starts_with("add")) {
    const F sum = x + y;
    return as_bits<F, T>(flush && std::fpclassify(sum) == FP_SUBNORMAL ? std::copysign(F{0}, sum) : sum);
  }
  if (operation.starts_with("min")) return y < x ? a : old;
  if (operation.starts_with("max")) return y > x ? a : old;
  return x == y ? b : old;  // cmpst
}

}  // namespace

std::uint64_t expect_atomic(const std::string& operation, unsigned size_bytes, std::uint64_t old, std::uint64_t a,
                            std::uint64_t b, bool flush_f32) {
  const std::uint64_t all = size_bytes == 8 ? ~0ULL : 0xFFFFFFFFULL;
  const auto number = [&](std::uint64_t bits) {
    return size_bytes == 8 ? static_cast<std::int64_t>(bits) : static_cast<std::int32_t>(bits);
  };
  if (operation == "pk_add_f16" || operation == "pk_add_bf16") {
    return add_halves(operation, static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(a));
  }
  if (operation.ends_with("_f32")) {
    return float_operation<float, std::uint32_t>(operation, static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(a),
                                                 static_cast<std::uint32_t>(b), flush_f32);
  }
  if (operation.ends_with("_f64")) return float_operation<double, std::uint64_t>(operation, old, a, b, false);
  if (operation == "swap") return a;
  if (operation == "cmpswap") return old == b ? a : old;
  if (operation == "cmpst") return old == a ? b : old;
  if (operation == "add") return (old + a) & all;
  if (operation == "sub") return (old - a) & all;
  if (operation == "rsub") return (a - old) & all;
  if (operation == "and") return old & a;
  if (operation == "or") return old | a;
  if (operation == "xor") return old ^ a;
  if (operation == "umin") return a < old ? a : old;
  if (operation == "umax") return a > old ? a : old;
  if (operation == "smin") return number(a) < number(old) ? a : old;
  if (operation == "smax") return number(a) > number(old) ? a : old;
  if (operation == "inc") return old >= a ? 0 : old + 1;
  if (operation == "dec") return old == 0 || old > a ? a : old - 1;
  if (operation == "mskor") return (old & ~a) | b;
  if (operation == "wrap") return (old >= a ? old - a : old + b) & all;
  fail("the reference does not know %s", operation.c_str());
  return 0;
}

}  // namespace kerncap::softgpu::test
