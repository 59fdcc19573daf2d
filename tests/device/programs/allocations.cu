// Allocates and gives back memory of all kinds at random while a kernel runs again and again. At each target it writes
// down what there is. usage: allocations SEED ROUNDS; prints "ROUND KIND ADDRESS BYTES".
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <vector>

#include "driver_calls.cuh"

constexpr std::size_t k_page = 4096;

__global__ void target(unsigned* word) { *word += 1; }
__global__ void other(unsigned* word) { *word += 1; }

struct Piece {
  const char* kind;
  void* address;
  std::size_t bytes;
  CUmemGenericAllocationHandle handle;
};

class Pieces {
 public:
  explicit Pieces(unsigned seed) : m_random(seed) {}

  void step() {
    if (m_pieces.empty() || (m_pieces.size() < 40 && whole(2) == 0)) return add();
    const std::size_t which = whole(m_pieces.size());
    give_back(m_pieces[which]);
    m_pieces.erase(m_pieces.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void print(int round) const {
    for (const Piece& piece : m_pieces) std::printf("%d %s %p %zu\n", round, piece.kind, piece.address, piece.bytes);
  }

 private:
  std::size_t whole(std::size_t below) { return m_random() % below; }

  void add() {
    Piece piece{"", nullptr, 1 + whole(40 * k_page), 0};
    switch (whole(7)) {
      case 0:
        piece.kind = "device_coarse";
        CHECK(cudaMalloc(&piece.address, piece.bytes));
        break;
      case 1:
        piece.kind = "host_pinned";
        CHECK(cudaMallocHost(&piece.address, piece.bytes));
        break;
      case 2:
        piece.kind = "host_registered";
        piece.address = mmap(nullptr, piece.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(piece.address != MAP_FAILED);
        CHECK(cudaHostRegister(piece.address, piece.bytes, cudaHostRegisterDefault));
        break;
      case 3:
        piece.kind = "managed";
        CHECK(cudaMallocManaged(&piece.address, piece.bytes));
        break;
      case 4:
        piece.kind = "async_pool";
        CHECK(cudaMallocAsync(&piece.address, piece.bytes, nullptr));
        break;
      case 5: {
        piece.kind = "device_coarse";
        const std::size_t rows = 1 + whole(50);
        CHECK(cudaMallocPitch(&piece.address, &piece.bytes, 100 + whole(500), rows));
        piece.bytes *= rows;
        break;
      }
      default:
        piece.kind = "vmem";
        map(piece);
        break;
    }
    m_pieces.push_back(piece);
  }

  static void map(Piece& piece) {
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    std::size_t granule = 0;
    DRIVER(cuMemGetAllocationGranularity, &granule, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    piece.bytes = (piece.bytes + granule - 1) / granule * granule;
    DRIVER(cuMemCreate, &piece.handle, piece.bytes, &what, 0ull);
    CUdeviceptr address;
    DRIVER(cuMemAddressReserve, &address, piece.bytes, std::size_t{0}, CUdeviceptr{0}, 0ull);
    DRIVER(cuMemMap, address, piece.bytes, std::size_t{0}, piece.handle, 0ull);
    CUmemAccessDesc access{};
    access.location = what.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemSetAccess, address, piece.bytes, &access, std::size_t{1});
    piece.address = reinterpret_cast<void*>(address);
  }

  static void give_back(const Piece& piece) {
    const auto is = [&piece](const char* kind) { return std::strcmp(piece.kind, kind) == 0; };
    if (is("host_pinned")) {
      CHECK(cudaFreeHost(piece.address));
    } else if (is("host_registered")) {
      CHECK(cudaHostUnregister(piece.address));
      munmap(piece.address, piece.bytes);
    } else if (is("async_pool")) {
      CHECK(cudaFreeAsync(piece.address, nullptr));
    } else if (is("vmem")) {
      const auto address = reinterpret_cast<CUdeviceptr>(piece.address);
      DRIVER(cuMemUnmap, address, piece.bytes);
      DRIVER(cuMemRelease, piece.handle);
      DRIVER(cuMemAddressFree, address, piece.bytes);
    } else {
      CHECK(cudaFree(piece.address));
    }
  }

  std::mt19937 m_random;
  std::vector<Piece> m_pieces;
};

int main(int argc, char** argv) {
  EXPECT(argc == 3);
  const int rounds = std::atoi(argv[2]);
  unsigned* words = nullptr;
  CHECK(cudaMalloc(&words, 2 * sizeof *words));
  CHECK(cudaMemset(words, 0, 2 * sizeof *words));
  Pieces pieces(static_cast<unsigned>(std::atoi(argv[1])));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 100; ++i) {
      if (i % 3 == 0) other<<<1, 1>>>(words);
      pieces.step();
    }
    target<<<1, 1>>>(words + 1);
    CHECK(cudaGetLastError());
    pieces.print(round);
    std::printf("%d device_coarse %p %zu\n", round, static_cast<void*>(words), 2 * sizeof *words);
  }
  unsigned last[2];
  CHECK(cudaMemcpy(last, words, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last[0] == 34u * static_cast<unsigned>(rounds) && last[1] == static_cast<unsigned>(rounds));
  std::printf("ok\n");
  return 0;
}
