// Forms of code images, and which PTX a kernel's handles lead to.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "../check.hpp"
#include "cuda/images.hpp"

using namespace kerncap::cuda;

namespace {

constexpr std::size_t k_most = 1 << 20;
constexpr unsigned k_hopper = 90;

std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T handle(std::uintptr_t number) { return reinterpret_cast<T>(number); }

Image ptx(const std::string& text) { return look_at(text.c_str(), k_most); }

std::vector<std::string> found(Images& images, std::uintptr_t launched, std::uintptr_t function = 0, std::uintptr_t module = 0) {
  std::vector<std::string> texts;
  for (const Bytes& each : images.of(handle<const void*>(launched), handle<const void*>(function), handle<CUmodule>(module))) {
    texts.emplace_back(reinterpret_cast<const char*>(each.data()), each.size());
  }
  return texts;
}

void forms_are_told_apart(const std::string& fatbin, const std::string& cubin) {
  const std::string text = "\n// of a compiler\n.version 9.0\n";
  CHECK(ptx(text).form == Image::Form::ptx && ptx(text).bytes.size() == text.size());
  CHECK(look_at(text.c_str(), text.size() - 1).form == Image::Form::other);   // too long
  CHECK(look_at(fatbin.data(), k_most).form == Image::Form::fatbin);
  CHECK(look_at(fatbin.data(), k_most).bytes.size() == fatbin.size());
  CHECK(look_at(fatbin.data(), fatbin.size() - 1).form == Image::Form::other);
  CHECK(look_at(cubin.data(), k_most).form == Image::Form::cubin);
  CHECK(look_at(cubin.data(), k_most).bytes.size() == cubin.size());
  CHECK(look_at(cubin.data(), cubin.size() - 1).form == Image::Form::other);
  CHECK(look_at(nullptr, k_most).form == Image::Form::other);
  CHECK(look_at("\xED\x43\x4E\x7F and more", k_most).form == Image::Form::other);
  struct {
    std::uint32_t magic = 0x466243B1, version = 1;
    const void* fatbin = nullptr;
    const void* file = nullptr;
  } wrapper;
  CHECK(look_at(&wrapper, k_most).form == Image::Form::other);
  wrapper.fatbin = fatbin.data();
  CHECK(look_at(&wrapper, k_most).bytes.data() == reinterpret_cast<const std::byte*>(fatbin.data()));
}

void ptx_counts_where_no_cubin_runs(const std::string& fatbin, const std::string& cubin) {
  const Image several = look_at(fatbin.data(), k_most);
  for (const unsigned capability : {80u, 86u, 90u}) CHECK(!is_compiled(several, capability));
  for (const unsigned capability : {75u, 100u}) CHECK(is_compiled(several, capability));
  CHECK(is_compiled(ptx(".version 9.0"), 90) && !is_compiled(look_at(cubin.data(), k_most), 100));
  std::string endless = fatbin;
  std::memset(&endless[16 + 4], 0, 4);                                         // an entry's header
  CHECK(!is_compiled(look_at(endless.data(), k_most), 100));
}

void a_module_leads_to_its_own_text() {
  Images images;
  images.module_loaded(handle<CUmodule>(1), ptx(".one"), k_hopper);
  images.module_loaded(handle<CUmodule>(2), ptx(".two"), k_hopper);
  CHECK(found(images, 7, 7, 2) == std::vector<std::string>{".two"});
  CHECK(found(images, 7, 7, 3).empty());
  images.module_unloaded(handle<CUmodule>(2));
  CHECK(found(images, 7, 7, 2).empty() && found(images, 7, 7, 1).size() == 1);
}

void a_library_is_known_by_its_parts() {
  Images images;
  images.library_loaded(handle<CUlibrary>(1), ptx(".text"), k_hopper);
  images.library_part(handle<CUlibrary>(1), handle<const void*>(11));
  images.library_part(handle<CUlibrary>(2), handle<const void*>(12));
  images.function_of(handle<CUkernel>(11), handle<const void*>(21));
  for (const std::uintptr_t part : {11, 21}) CHECK(found(images, part) == std::vector<std::string>{".text"});
  CHECK(found(images, 5, 21).size() == 1 && found(images, 5, 6, 11).size() == 1);
  CHECK(found(images, 12).empty());
  images.library_unloaded(handle<CUlibrary>(1));
  CHECK(found(images, 11).empty());
}

void a_linked_cubin_leads_to_what_was_linked(const std::string& cubin) {
  Images images;
  images.link_input(handle<CUlinkState>(1), ptx(".a"), k_hopper);
  images.link_input(handle<CUlinkState>(1), look_at(cubin.data(), k_most), k_hopper);
  images.link_input(handle<CUlinkState>(1), ptx(".b"), k_hopper);
  images.linked(handle<CUlinkState>(1), std::as_bytes(std::span(cubin)));
  images.link_destroyed(handle<CUlinkState>(1));
  const std::string copy = cubin;
  images.module_loaded(handle<CUmodule>(1), look_at(copy.data(), k_most), k_hopper);
  CHECK(found(images, 7, 7, 1) == std::vector<std::string>{".a", ".b"});
  std::string other = cubin;
  other.back() = static_cast<char>(~other.back());
  images.module_loaded(handle<CUmodule>(2), look_at(other.data(), k_most), k_hopper);
  CHECK(found(images, 7, 7, 2).empty());
}

void the_oldest_is_given_up_when_there_is_too_much() {
  Images images;
  const std::string text = "." + std::string(12u << 20, ' ');
  for (std::uintptr_t i = 1; i <= 6; ++i) {
    images.module_loaded(handle<CUmodule>(i), look_at(text.c_str(), 16u << 20), k_hopper);
  }
  CHECK(found(images, 0, 0, 1).empty());
  for (std::uintptr_t i = 2; i <= 6; ++i) CHECK(found(images, 0, 0, i).size() == 1);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const std::string fatbin = text_of(argv[1]);
  const std::string cubin = text_of(argv[2]);
  CHECK(fatbin.size() > 1000 && cubin.size() > 1000);
  forms_are_told_apart(fatbin, cubin);
  ptx_counts_where_no_cubin_runs(fatbin, cubin);
  a_module_leads_to_its_own_text();
  a_library_is_known_by_its_parts();
  a_linked_cubin_leads_to_what_was_linked(cubin);
  the_oldest_is_given_up_when_there_is_too_much();
  return kerncap::test::exit_code();
}
