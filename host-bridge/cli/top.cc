// SPDX-License-Identifier: Apache-2.0
// top.cc: `barcuda top`: what the bridges of this machine and their clients do, on the whole terminal (ncurses),
// refreshed repeatedly. Without a terminal, or with --once, it prints one look as text.
#include <curses.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>

#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/json.h"
#include "host-bridge/watch/rates.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using namespace watch;

struct ClientLine {  // a client
    const Bridge* bridge;
    const watch::Client* client;
    Rates rates;
};

// What a key sorts by; the largest comes first.
struct SortOrder {
    char key;
    const char* name;
    std::function<double(const ClientLine&)> value;
};
const std::vector<SortOrder>& orders() {
    static const std::vector<SortOrder> all = {
        {'g', "GPU", [](const ClientLine& r) { return r.client->all_busy().value_or(0); }},
        {'m', "memory", [](const ClientLine& r) { return double(r.client->all_device_memory()); }},
        {'r', "reg", [](const ClientLine& r) { return double(r.client->region_memory); }},
        {'l', "launch", [](const ClientLine& r) { return r.rates.launches; }},
        {'c', "copy",
         [](const ClientLine& r) { return r.rates.copied[Counts::to_device] + r.rates.copied[Counts::to_host]; }},
        {'o', "out", [](const ClientLine& r) { return double(r.client->shared.out); }},
        {'w', "queue", [](const ClientLine& r) { return double(r.client->queued); }},
        {'a', "age", [](const ClientLine& r) { return r.client->age; }},
    };
    return all;
}

struct Picture {                                // one look, as lines
    std::vector<std::string> bridges, clients;  // the first line of each is its headings
    std::vector<Percent> fill;  // for each line of `bridges` after the headings: used GPU memory in percent
};

std::string bytes_a_second(double bytes) { return bytes < 1 ? "-" : size(static_cast<std::uint64_t>(bytes)) + "/s"; }
std::string a_second(double number) { return number == 0 ? "-" : count(number); }

std::vector<std::string> words_of(const Rates& r, std::uint64_t queued) {
    return {a_second(r.commands),
            a_second(r.launches),
            a_second(r.copies),
            bytes_a_second(r.copied[Counts::to_device]),
            bytes_a_second(r.copied[Counts::to_host]),
            bytes_a_second(r.copied[Counts::on_device]),
            queued ? count(double(queued)) : "-"};
}
const std::vector<std::string> headings_of_rates = {">CMD/s",   ">LAUNCH/s", ">COPY/s", ">TO GPU",
                                                    ">TO HOST", ">ON GPU",   ">QUEUE"};

using Table = std::vector<std::vector<std::string>>;

std::size_t width_of(const std::vector<std::string>& lines) {
    std::size_t width = 0;
    for (const std::string& line : lines) width = std::max(width, line.size());
    return width;
}

// Without columns that a narrow terminal has no room for: the first of `spare` goes first, of equal headings the last.
Table fitted(Table table, std::size_t width, std::initializer_list<const char*> spare) {
    for (const char* const heading : spare) {
        if (width_of(columns(table)) <= width) break;
        const auto found = std::find(table[0].rbegin(), table[0].rend(), heading);
        if (found == table[0].rend()) continue;
        const auto at = table[0].rend() - found - 1;
        for (std::vector<std::string>& row : table) row.erase(row.begin() + at);
    }
    return table;
}

// What is longer ends with a sign.
std::string cut(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most - 1) + '+';
}

// Of device memory that moves out and back (--cards): what is outside of the GPU now; so far, what has moved, both
// ways, and how often the client has waited for memory.
std::vector<std::string> words_of(const SharedMemory& shared) {
    const auto or_none = [](std::uint64_t number, const std::string& text) { return number ? text : "-"; };
    const std::uint64_t moved = shared.moved_out + shared.moved_back;
    return {or_none(shared.out, size(shared.out)), or_none(moved, size(moved)),
            or_none(shared.waits, count(double(shared.waits)))};
}
const std::vector<std::string> headings_of_shared = {">OUT", ">MOVED", ">WAITS"};

// `width`: what the tables may have, less important columns give way.
Picture draw(const View& view, const Since& since, const SortOrder& order, std::size_t width = ~std::size_t{0}) {
    const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    Picture picture;
    Table bridges = {
        with({"VM", ">GPU", "NAME", ">BUSY", ">MEMORY", ">OF", ">REGION", ">OF", ">CLIENTS"}, headings_of_rates)};
    std::vector<ClientLine> rows;
    for (const Bridge& b : view.bridges) {
        std::vector<std::string> own = {size(b.region_held), size(b.region_heap), std::to_string(b.clients)};
        std::vector<std::string> rates = words_of(since.of(b), b.queued), name = {b.name};
        for (std::size_t d = 0; d < b.gpus.size(); ++d) {
            const watch::Gpu& gpu = b.gpus[d];
            std::vector<std::string> its = {std::to_string(d), cut(gpu.name, 24), percent(gpu.busy), size(gpu.held),
                                            size(gpu.memory)};
            bridges.push_back(with(with(with(name, its), own), rates));
            picture.fill.push_back(gpu.memory ? Percent(unsigned(double(gpu.held) * 100 / double(gpu.memory)))
                                              : Percent());
            name = {""};  // only the first GPU's line names the bridge
            own = {"", "", ""};
            rates = std::vector<std::string>(rates.size());
        }
        for (const watch::Client& c : b.rows) rows.push_back({&b, &c, since.of(b, c)});
    }
    std::ranges::stable_sort(rows, std::greater<>{}, order.value);
    const bool shares = std::ranges::any_of(view.bridges, &Bridge::shares_cards);
    const auto of_shared = [&](const std::vector<std::string>& words) {
        return shares ? words : std::vector<std::string>();
    };
    Table clients = {
        with(with({"VM", ">CH", ">PID", "USER", "PROGRAM", ">AGE", ">GPU", ">MEMORY"}, of_shared(headings_of_shared)),
             with({">REGION"}, headings_of_rates))};
    for (const ClientLine& r : rows) {
        const watch::Client& c = *r.client;
        clients.push_back(with(
            with({r.bridge->name, std::to_string(c.channel), std::to_string(c.pid), c.user.empty() ? "?" : c.user,
                  cut(c.program, 24), age(c.age), c.paused_for > 0 || c.shared.lacks ? c.state : percent(c.all_busy()),
                  size(c.all_device_memory())},
                 of_shared(words_of(c.shared))),
            with({size(c.region_memory)}, words_of(r.rates, c.queued))));
    }
    picture.bridges = columns(fitted(
        bridges, width, {">ON GPU", ">COPY/s", "NAME", ">CMD/s", ">OF", ">REGION", ">TO HOST", ">OF", ">CLIENTS"}));
    picture.clients = columns(
        fitted(clients, width,
               {">ON GPU", ">COPY/s", ">CMD/s", ">CH", ">AGE", ">REGION", "USER", ">TO HOST", ">MOVED", ">PID"}));
    return picture;
}

std::string headline(const View& view) {
    std::uint64_t clients = 0;
    for (const Bridge& b : view.bridges) clients += b.clients;
    return fmt::format("barcuda top  {:%H:%M:%S}  {} bridge{}, {} client{}", fmt::localtime(std::time(nullptr)),
                       view.bridges.size(), view.bridges.size() == 1 ? "" : "s", clients, clients == 1 ? "" : "s");
}

// ---- on a terminal

enum : short { plain_pair, title_pair, good_pair, high_pair, full_pair };

class Screen {
  public:
    explicit Screen(bool with_colours) {
        std::setlocale(LC_CTYPE, "");
        set_escdelay(25);
        initscr();
        cbreak();
        noecho();
        curs_set(0);
        keypad(stdscr, TRUE);
        coloured_ = with_colours && has_colors();
        if (!coloured_) return;
        start_color();
        use_default_colors();
        init_pair(title_pair, COLOR_CYAN, -1);
        init_pair(good_pair, COLOR_GREEN, -1);
        init_pair(high_pair, COLOR_YELLOW, -1);
        init_pair(full_pair, COLOR_RED, -1);
    }
    ~Screen() { endwin(); }
    Screen(const Screen&) = delete;
    void line(const std::string& text, attr_t how = A_NORMAL, short pair = plain_pair) {
        if (at_ >= LINES) return;
        attron(how | attr_t(coloured_ ? COLOR_PAIR(pair) : 0));
        mvaddnstr(at_++, 0, text.c_str(), COLS);
        if (how & A_REVERSE) hline(' ', COLS);
        attroff(how | attr_t(coloured_ ? COLOR_PAIR(pair) : 0));
        clrtoeol();
    }
    void begin() { at_ = 0; }
    void end() {
        clrtobot();
        refresh();
    }
    int left() const { return LINES - at_; }

  private:
    bool coloured_ = false;
    int at_ = 0;
};

std::string bar(unsigned percent, unsigned width) {
    const unsigned full = std::min(percent, 100u) * width / 100;
    return "[" + std::string(full, '|') + std::string(width - full, ' ') + "]";
}

struct Scroll {             // of what the terminal shows
    std::size_t first = 0;  // client
    std::size_t side = 0;   // 0: the columns that fit; else all columns, from this character on
};

void show(Screen& screen, const View& view, const Since& since, const SortOrder& order, Scroll& place) {
    const auto columns = static_cast<std::size_t>(COLS);
    Picture picture;
    if (place.side) {  // no further than to the last column
        picture = draw(view, since, order);
        const std::size_t widest = std::max(width_of(picture.bridges), width_of(picture.clients));
        place.side = std::min(place.side, widest > columns ? widest - columns : 0);
    }
    if (!place.side) picture = draw(view, since, order, columns);
    const auto shifted = [&](const std::string& line) { return line.substr(std::min(line.size(), place.side)); };
    // A bar's line has 59 characters beside its two bars.
    const unsigned of_bars = std::clamp((COLS - 59) / 2, 4, 20);
    std::size_t& first = place.first;
    screen.begin();
    screen.line(headline(view), A_BOLD, title_pair);
    if (view.bridges.empty()) screen.line(with_hint(nobody_serves(view)));
    for (const std::string& complaint : view.complaints) screen.line(complaint, A_NORMAL, full_pair);
    std::size_t n = 0;  // number of the GPU
    for (const Bridge& b : view.bridges)
        for (std::size_t d = 0; d < b.gpus.size(); ++d, ++n) {
            const unsigned full = picture.fill[n].value_or(0), busy = b.gpus[d].busy.value_or(0);
            const unsigned most = std::max(full, busy);
            screen.line(fmt::format("{:<14} GPU {:<2} busy {} {:>4}  memory {} {:>3}% of {}", cut(b.name, 14), d,
                                    bar(busy, of_bars), percent(b.gpus[d].busy), bar(full, of_bars), full,
                                    size(b.gpus[d].memory)),
                        A_NORMAL,
                        most >= 95   ? full_pair
                        : most >= 75 ? high_pair
                                     : good_pair);
        }
    if (!view.bridges.empty()) {
        screen.line("");
        for (std::size_t i = 0; i < picture.bridges.size(); ++i)
            screen.line(shifted(picture.bridges[i]), i ? A_NORMAL : A_REVERSE);
        screen.line("");
        const std::size_t all = picture.clients.size() - 1;
        const auto room = static_cast<std::size_t>(std::max(1, screen.left() - 2));
        first = std::min(first, all > room ? all - room : 0);
        screen.line(shifted(picture.clients[0]), A_REVERSE);
        for (std::size_t i = first; i < std::min(all, first + room); ++i) screen.line(shifted(picture.clients[i + 1]));
    }
    std::string keys = "q quit  sort:";
    for (const SortOrder& o : orders()) keys += fmt::format(" {}{} {}", &o == &order ? "*" : "", o.key, o.name);
    while (screen.left() > 1) screen.line("");
    screen.line(keys + "  arrows", A_DIM);
    screen.end();
}

int live(double interval) {
    View now = look(true);
    Since next(now), since = next;
    Screen screen(colours(STDOUT_FILENO));
    const SortOrder* order = &orders()[1];
    Scroll place;
    for (double wait = std::min(interval, 0.3);;) {  // the first rates come soon
        show(screen, now, since, *order, place);
        timeout(static_cast<int>(wait * 1000));
        const int key = getch();
        if (key == 'q' || key == 'Q' || key == 27) return 0;
        if (key == KEY_DOWN) ++place.first;
        else if (key == KEY_UP && place.first) --place.first;
        else if (key == KEY_NPAGE) place.first += 10;
        else if (key == KEY_PPAGE) place.first -= std::min<std::size_t>(place.first, 10);
        else if (key == KEY_RIGHT) place.side += 16;
        else if (key == KEY_LEFT) place.side -= std::min<std::size_t>(place.side, 16);
        else
            for (const SortOrder& o : orders())
                if (key == o.key) order = &o;
        if (key != ERR && key != ' ') continue;  // shows the same look in another way
        now = look(true);
        next.look_again();
        since = next;
        next = Since(now);
        wait = interval;
    }
}

struct TopOptions {
    bool once = false, json = false;
    double interval = 1;  // seconds
};

// Refreshes until a key ends it; with `once` or `json`: prints one look over the interval.
int top(const TopOptions& options) {
    const auto [once, json, interval] = options;
    const char* const terminal = std::getenv("TERM");
    if (!json && !once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal && *terminal) return live(interval);
    const View before = look(true);
    Since since(before);
    std::this_thread::sleep_for(std::chrono::duration<double>(interval));
    const View now = look(true);
    since.look_again();
    for (const std::string& complaint : now.complaints) fmt::print(stderr, "barcuda top: {}\n", complaint);
    if (json) {
        fmt::print("{}\n", json_of(now, &since).dump(1));
        return 0;
    }
    if (now.bridges.empty()) {
        fmt::print("{}\n", with_hint(nobody_serves(now)));
        return 0;
    }
    const Picture picture = draw(now, since, orders()[1]);
    fmt::print("{}\n", headline(now));
    for (const auto* part : {&picture.bridges, &picture.clients}) {
        fmt::print("\n");
        for (const std::string& line : *part) fmt::print("{}\n", line);
    }
    return 0;
}

}  // namespace

void add_top(App& app) {
    const auto options = std::make_shared<TopOptions>();
    const Command command = app.add("top",
                                    "the same, and what they do: launches, copies, queues, how busy the GPUs are; "
                                    "on the whole terminal, until q is pressed",
                                    [options] { return top(*options); });
    command.add_flag("--once", options->once, "print one look as text; the default if the output is not a terminal");
    add_json(command, options->json, "the same, as JSON");
    command.add_option("--interval", options->interval, "seconds between two looks")
        .check([](const std::string& text) {  // CLI11's Range accepts NaN
            double seconds = 0;
            const bool within = parse_number(text, seconds) && seconds >= 0.1 && seconds <= 3600;
            return std::string(within ? "" : text + ": expected a number of seconds from 0.1 to 3600");
        })
        .capture_default_str();
}

}  // namespace barcuda
