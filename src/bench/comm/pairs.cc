#include "bench/comm/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "base/time.h"
#include "comm/scalars.h"

namespace trireme::comm_bench {
namespace {

constexpr double kSlow = 0.5;  // of the median pair

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::vector<std::vector<int>> rounds_of(int hosts) {
  // The circle method: one stays, the others move by one place each round; with an odd number one rests.
  const int places = hosts + hosts % 2;
  std::vector<int> circle;
  for (int i = 0; i < places; ++i) circle.push_back(i < hosts ? i : -1);
  std::vector<std::vector<int>> rounds;
  for (int round = 0; round + 1 < places; ++round) {
    std::vector<int> partner(static_cast<size_t>(hosts), -1);
    for (int i = 0; i < places / 2; ++i) {
      const int a = circle[static_cast<size_t>(i)], b = circle[static_cast<size_t>(places - 1 - i)];
      if (a < 0 || b < 0) continue;
      partner[static_cast<size_t>(a)] = b;
      partner[static_cast<size_t>(b)] = a;
    }
    rounds.push_back(std::move(partner));
    std::rotate(circle.begin() + 1, circle.end() - 1, circle.end());
  }
  return rounds;
}

PairRates measure_pairs(Job& job, const std::string& host, int64_t bytes, int repeats) {
  PairRates pairs;
  std::vector<int> leaders;  // the first rank of each host
  const std::vector<std::string> names = job.scalars.gather(host);
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (std::ranges::find(pairs.hosts, names[rank]) != pairs.hosts.end()) continue;
    pairs.hosts.push_back(names[rank]);
    leaders.push_back(static_cast<int>(rank));
  }
  const size_t count = pairs.hosts.size();
  require(count > 1, ErrorKind::mismatch, "pairs: {} on {} alone; it measures pairs of hosts and needs at least 2",
          count_text(names.size(), "rank"), host);
  pairs.rates.assign(count * count, 0);
  const auto leader = std::ranges::find(leaders, job.rank());
  const int own = leader == leaders.end() ? -1 : static_cast<int>(leader - leaders.begin());
  std::vector<uint8_t> data(static_cast<size_t>(bytes), 1);
  for (const std::vector<int>& partners : rounds_of(static_cast<int>(count))) {
    const int other = own < 0 ? -1 : partners[static_cast<size_t>(own)];
    for (const bool first_sends : {true, false}) {
      const bool sends = (own < other) == first_sends;
      std::vector<double> seconds;
      for (int repeat = -1; repeat < repeats; ++repeat) {  // one to warm up
        job.meet();
        if (other < 0) continue;
        const int peer = leaders[static_cast<size_t>(other)];
        const Clock::time_point start = Clock::now();
        sends ? send_one_way(job.group, data.data(), bytes, peer)
              : receive_one_way(job.group, data.data(), bytes, peer);
        if (repeat >= 0) seconds.push_back(seconds_since(start));
      }
      if (other >= 0 && sends) {
        pairs.rates[static_cast<size_t>(own) * count + static_cast<size_t>(other)] =
            static_cast<double>(bytes) / median(seconds);
      }
    }
  }
  job.scalars.sum(pairs.rates);
  return pairs;
}

std::string to_text(const PairRates& pairs) {
  size_t width = 10;
  for (const std::string& name : pairs.hosts) width = std::max(width, name.size() + 2);
  std::string text = fmt::format("# {:<{}}", "GB/s to", width);
  for (const std::string& name : pairs.hosts) text += fmt::format("{:>{}}", name, width);
  text += "\n";
  for (size_t from = 0; from < pairs.hosts.size(); ++from) {
    text += fmt::format("  {:<{}}", pairs.hosts[from], width);
    for (size_t to = 0; to < pairs.hosts.size(); ++to) {
      text +=
          from == to ? fmt::format("{:>{}}", "-", width) : fmt::format("{:>{}.3g}", pairs.rate(from, to) / 1e9, width);
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> find_slow(const PairRates& pairs) {
  const size_t count = pairs.hosts.size();
  std::vector<double> all;
  for (size_t i = 0; i < pairs.rates.size(); ++i) {
    if (i / count != i % count) all.push_back(pairs.rates[i]);
  }
  const double usual = median(all);
  const auto slow = [&](size_t from, size_t to) { return from != to && pairs.rate(from, to) < kSlow * usual; };
  std::vector<std::string> found;
  std::vector<bool> told(pairs.rates.size(), false);
  const auto tell_host = [&](size_t host, bool sending) {
    double least = usual, most = 0;
    for (size_t other = 0; other < count; ++other) {
      if (other == host) continue;
      const size_t from = sending ? host : other, to = sending ? other : host;
      if (!slow(from, to)) return;
      least = std::min(least, pairs.rate(from, to));
      most = std::max(most, pairs.rate(from, to));
    }
    for (size_t other = 0; other < count; ++other) told[sending ? host * count + other : other * count + host] = true;
    found.push_back(fmt::format("{} {} slowly: {:.3g} to {:.3g} GB/s; the median of all pairs is {:.3g}",
                                pairs.hosts[host], sending ? "sends" : "receives", least / 1e9, most / 1e9,
                                usual / 1e9));
  };
  for (size_t host = 0; host < count && count > 2; ++host) {  // of two hosts each direction is a pair
    tell_host(host, true);
    tell_host(host, false);
  }
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      if (!slow(from, to) || told[from * count + to]) continue;
      found.push_back(fmt::format("{} -> {} is slow: {:.3g} GB/s; the median of all pairs is {:.3g}", pairs.hosts[from],
                                  pairs.hosts[to], pairs.rate(from, to) / 1e9, usual / 1e9));
    }
  }
  return found;
}

}  // namespace trireme::comm_bench
