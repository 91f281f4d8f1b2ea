// SPDX-License-Identifier: Apache-2.0
//
// What  Runs a fuzz target without libFuzzer: every file of its corpus, then seeded mutations of those files, so
//       that a parser's regressions are found in every test run.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;
constexpr int mutations_per_input = 2000;

std::vector<Input> load_corpus(const char* dir) {
    std::vector<Input> corpus{Input{}};
    if (!std::filesystem::is_directory(dir)) return corpus;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
        std::ifstream in(entry.path(), std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return corpus;
}

void mutate(Input& input, std::mt19937_64& rng) {
    const int edits = 1 + static_cast<int>(rng() % 4);
    for (int i = 0; i < edits; ++i) {
        const std::size_t at = input.empty() ? 0 : rng() % input.size();
        switch (rng() % 5) {
            case 0:
                if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1U << (rng() % 8));
                break;
            case 1:
                if (!input.empty()) input[at] = static_cast<std::uint8_t>(rng());
                break;
            case 2: input.resize(at); break;
            case 3: input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::uint8_t>(rng())); break;
            default:
                for (std::size_t k = at; k < input.size() && k < at + 4; ++k) input[k] = 0xFF;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto corpus = load_corpus(argc > 1 ? argv[1] : "");
    std::mt19937_64 rng(20260101);
    std::size_t runs = 0;
    for (const Input& seed : corpus) {
        LLVMFuzzerTestOneInput(seed.data(), seed.size());
        for (int i = 0; i < mutations_per_input; ++i, ++runs) {
            Input input = seed;
            mutate(input, rng);
            LLVMFuzzerTestOneInput(input.data(), input.size());
        }
    }
    std::printf("%zu inputs, %zu mutations\n", corpus.size(), runs);
    return 0;
}
