// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "host-bridge/bridge/numbers.h"

namespace barcuda {
namespace {

constexpr std::uint64_t magic = 0x534b4f4f42435242;  // "BRCBOOKS"
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Each part begins with a page of its own.
std::size_t behind(std::size_t place, std::size_t count, std::size_t each) {
    return (place + count * each + BARCUDA_PAGE - 1) / BARCUDA_PAGE * BARCUDA_PAGE;
}

std::string system_error(const char* what) { return fmt::format("{}: {}", what, strerror(errno)); }

}  // namespace

Ledger::Places::Places(const Shape& shape) {
    granules = behind(0, 1, sizeof(Head));
    accounts = behind(granules, shape.granule_count, sizeof(Grants::Granule));
    rules = behind(accounts, shape.channel_count, sizeof(Quotas::Accounts));
    totals = behind(rules, 1, sizeof(Twice<KeptRules>));
    clients = behind(totals, 1, sizeof(Twice<KeptTotals>));
    pauses = behind(clients, shape.channel_count, sizeof(Twice<KeptClient>));
    requests = behind(pauses, shape.channel_count, sizeof(Twice<KeptPause>));
    shown = behind(requests, shape.channel_count, sizeof(Twice<KeptRequest>));
    residents = behind(shown, shape.channel_count, sizeof(Shared::Shown));
    rooms = behind(residents, shape.channel_count, sizeof(KeptResidents));
    end = behind(rooms, shape.channel_count, sizeof(Rooms::Account));
}

Ledger::Ledger(Ledger&& other) noexcept { *this = std::move(other); }

Ledger& Ledger::operator=(Ledger&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    std::swap(places_, other.places_);
    std::swap(kept_, other.kept_);
    return *this;
}

Ledger::~Ledger() {
    if (at_) munmap(at_, bytes_);
}

bool Ledger::map(std::size_t bytes, int fd) {
    const int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) return false;
    at_ = static_cast<char*>(at);
    bytes_ = bytes;
    return true;
}

// All else is zeros, as the records are at first.
void Ledger::begin(const Shape& shape) {
    places_ = Places(shape);
    Head& head = *reinterpret_cast<Head*>(at_);
    head.magic = magic;
    head.form = form;
    head.link = Numbers::of_this_build().of[Numbers::link].newest;
    head.layout = BARCUDA_LAYOUT;
    head.packets = BARCUDA_PACKETS;
    head.shape = shape;
    head.bytes = bytes_;
    head.whole = 1;
}

Failure Ledger::make(const Shape& shape) {
    const std::size_t bytes = Places(shape).end;
    file_ = File(memfd_create("barcuda-books", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file_ || ftruncate(file_.fd(), static_cast<off_t>(bytes)) != 0 || fcntl(file_.fd(), F_ADD_SEALS, seals) != 0 ||
        !map(bytes, file_.fd()))
        return system_error("the bridge's books cannot be made");
    begin(shape);
    return {};
}

// `with_workers`: they go on, too.
Failure Ledger::check(const Head& its, std::size_t bytes, bool with_workers) {
    if (its.magic != magic || !its.whole) return "the bridge's books are not whole";
    Numbers used;
    const auto uses = [&](Numbers::What what, std::uint32_t number) { used.of[what] = {number, number}; };
    uses(Numbers::books, its.form);
    if (with_workers) uses(Numbers::link, its.link);
    uses(Numbers::layout, its.layout);
    uses(Numbers::packets, its.packets);
    if (const auto all = differences(used, Numbers::of_this_build()); !all.empty())
        return fmt::format("{}; let its clients end, then start this bridge", fmt::join(all, "; "));
    if (its.shape.channel_count > BARCUDA_MAX_CHANNELS ||
        its.shape.granule_count > BARCUDA_MAX_SIZE / BARCUDA_GRANULE || its.bytes != bytes ||
        Places(its.shape).end != bytes)
        return "the bridge's books do not have the size that their head says";
    return {};
}

Failure Ledger::open(File file) {
    struct stat there {};
    if (fstat(file.fd(), &there) != 0) return system_error("the bridge's books cannot be read");
    const auto size = static_cast<std::size_t>(there.st_size);
    if ((fcntl(file.fd(), F_GET_SEALS) & seals) != seals || size < sizeof(Head))
        return "the bridge's books are not a file that a bridge made";
    if (!map(size, file.fd())) return system_error("the bridge's books cannot be read");
    const auto refuse = [this](std::string why) {
        *this = Ledger();
        return why;
    };
    if (Failure why = check(head(), size, true)) return refuse(why.text());
    places_ = Places(shape());
    file_ = std::move(file);
    kept_ = true;
    return {};
}

Failure Ledger::wake(int file) {
    struct stat there {};
    if (fstat(file, &there) != 0) return system_error("the suspended bridge's books cannot be read");
    const auto bytes = static_cast<std::size_t>(there.st_size);
    if (bytes < sizeof(Head)) return "the suspended bridge's books are shorter than their head";
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) return system_error("the suspended bridge's books cannot be read");
    Ledger old;
    old.at_ = static_cast<char*>(at);
    old.bytes_ = bytes;
    if (Failure why = check(old.head(), bytes, false)) return why;
    old.places_ = Places(old.shape());
    if (Failure why = make(old.shape())) return why;
    *rules() = *old.rules();
    totals() = old.totals();
    for (std::size_t i = 0; i < shape().granule_count; ++i) {
        const Grants::Granule& its = old.granules().records[i];
        Grants::Granule& now = granules().records[i];
        now.owner = its.owner;
        now.dirty = its.dirty;
    }
    for (std::size_t i = 0; i < shape().channel_count; ++i) {
        KeptClient client = old.clients().records[i].get();
        client.told = 0;  // its worker is a new one
        client.worker_start = 0;
        for (auto& run : client.reserved) run = {};
        if (client.state != KeptClient::none) clients().records[i].set(client);
        KeptPause pause = old.pauses().records[i].get();
        if (!pause.known || client.state != KeptClient::assigned) continue;
        pauses().records[i].set(Pausing::ordered_again(pause));  // its new worker obeys before it takes a command
    }
    kept_ = true;
    return {};
}

void Ledger::own() {
    if (at_) reinterpret_cast<Head*>(at_)->link = Numbers::of_this_build().of[Numbers::link].newest;
}

Ledger Ledger::anonymous(const Shape& shape) {
    Ledger ledger;
    if (ledger.map(Places(shape).end, -1)) ledger.begin(shape);
    return ledger;
}

}  // namespace barcuda
