// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

namespace {

Refusal refusal_of(Fd fd, std::uint32_t uid = self_uid_any) {
    const auto mapping = Mapping::open(std::move(fd), uid);
    return mapping ? Refusal::none : mapping.error().code;
}

Fd memfd(std::uint64_t bytes, int seals, unsigned flags = MFD_ALLOW_SEALING) {
    Fd fd(::memfd_create("test", MFD_CLOEXEC | flags));
    CHECK(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    if (seals != 0) CHECK(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    return fd;
}

constexpr int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

TEST_CASE("the control structs have the offsets of LAYOUT.md") {
    CHECK(offsetof(IdentityPart, ring_uuid) == 32);
    CHECK(offsetof(ProducerPart, registry_used) == 32);
    CHECK(offsetof(ConsumerPart, progress) == 24);
    CHECK(offsetof(Control, drops_used) == 384);
    CHECK(offsetof(RecordHeader, points_total) == 16);
    CHECK(offsetof(RecordHeader, attempt) == 40);
    CHECK(offsetof(AttachMessage, text) == 24);
}

TEST_CASE("data is mapped twice in a row, large rings at a huge-page boundary, the agent's view read-only") {
    Ring ring(RingKind::block, 4 << 20);
    ring.pages.data[5] = 77;
    CHECK(ring.pages.data[ring.pages.data_bytes + 5] == 77);
    CHECK(reinterpret_cast<std::uintptr_t>(ring.pages.data) % huge_page_bytes == 0);
    const Mapping mapping = ring.map();
    CHECK(mapping.pages().data[5] == 77);
    CHECK(mapping.bytes() == (4 << 20) + 8192 + 65536);
    const pid_t child = ::fork();
    if (child == 0) {
        const_cast<Pages&>(mapping.pages()).data[0] = 1;
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
}

TEST_CASE("I1 a ring that could be truncated or is no memfd is refused") {
    CHECK(refusal_of(memfd(data_bytes_min + 8192 + 4096, 0)) == Refusal::seals);
    CHECK(refusal_of(memfd(data_bytes_min + 8192 + 4096, F_SEAL_SHRINK | F_SEAL_GROW)) == Refusal::seals);
    CHECK(refusal_of(memfd(data_bytes_min + 8192 + 4096, all_seals | F_SEAL_WRITE)) == Refusal::seals);
    CHECK(refusal_of(Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC))) == Refusal::seals);
    CHECK(refusal_of(Fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))) == Refusal::seals);
    Ring ring;
    CHECK(::ftruncate(ring.fd.get(), 0) != 0);  // what the seals are for
}

TEST_CASE("sizes that do not fit, a foreign identity, a foreign version and a nil UUID are refused by name") {
    CHECK(refusal_of(memfd(1000, all_seals)) == Refusal::size);
    CHECK(refusal_of(memfd(0, all_seals)) == Refusal::size);
    CHECK(refusal_of(memfd(1ULL << 40, all_seals)) == Refusal::size);
    CHECK(refusal_of(memfd(data_bytes_min + 8192 + 4096, all_seals)) == Refusal::size);
    const auto changed = [](auto change) {
        Ring ring;
        change(ring.control().identity);
        return refusal_of(Fd(::dup(ring.fd.get())));
    };
    CHECK(changed([](IdentityPart&) {}) == Refusal::none);
    CHECK(changed([](IdentityPart& i) { i.version = 2; }) == Refusal::version);
    CHECK(changed([](IdentityPart& i) { i.magic = 0; }) == Refusal::size);
    CHECK(changed([](IdentityPart& i) { i.data_bytes *= 2; }) == Refusal::size);
    CHECK(changed([](IdentityPart& i) { i.registry_bytes -= 4096; }) == Refusal::size);
    CHECK(changed([](IdentityPart& i) { i.control_bytes = 4096; }) == Refusal::identity);
    CHECK(changed([](IdentityPart& i) { i.kind = static_cast<RingKind>(7); }) == Refusal::identity);
    CHECK(changed([](IdentityPart& i) { i.ring_uuid[0] = 0; }) == Refusal::identity);
    CHECK(changed([](IdentityPart& i) { i.reserved[40] = 1; }) == Refusal::identity);
}

TEST_CASE("a ring of another user is refused unless root offers it") {
    Ring ring;
    CHECK(refusal_of(Fd(::dup(ring.fd.get())), ::getuid()) == Refusal::none);
    CHECK(refusal_of(Fd(::dup(ring.fd.get())), ::getuid() + 1) == Refusal::owner);
}

TEST_CASE("I1 holes punched after creation are filled again before the agent maps") {
    Ring ring;
    REQUIRE(::fallocate(ring.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, data_bytes_min) == 0);
    struct stat st {};
    ::fstat(ring.fd.get(), &st);
    const auto before = st.st_blocks;
    const Mapping mapping = ring.map();
    ::fstat(ring.fd.get(), &st);
    CHECK(st.st_blocks > before);
    CHECK(st.st_blocks * 512 >= st.st_size);
}

TEST_CASE("I2 an identity rewritten after the check changes nothing") {
    Ring ring;
    const Mapping mapping = ring.map();
    ring.control().identity.data_bytes = 1ULL << 60;
    CHECK(mapping.identity().data_bytes == data_bytes_min);
}

TEST_CASE("a file-size limit or a lack of descriptors makes creation fail with its errno, not with a signal") {
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit small{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &small);
        Pages pages;
        int fd = -1;
        if (create_ring({}, fd, pages) != -EFBIG) ::_exit(1);
        const rlimit unlimited{1 << 30, 1 << 30};
        ::setrlimit(RLIMIT_FSIZE, &unlimited);
        const rlimit none{3, 3};
        ::setrlimit(RLIMIT_NOFILE, &none);
        ::_exit(create_ring({}, fd, pages) == -EMFILE ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
