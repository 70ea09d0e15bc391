#include "data/prepare/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>

namespace trireme {
namespace {

struct Item {
  int number = 0;
  uint64_t result = 0;
};

/// Takes a different time for each item, so that items are ready out of order.
uint64_t work_on(int number) {
  uint64_t x = static_cast<uint64_t>(number) + 1;
  for (int i = 0; i < number * 7919 % 5000; ++i) x = x * 6364136223846793005 + 1;
  return x;
}

TEST(OrderedPipeline, TakesItemsInTheOrderOfReadingOneStageAtATime) {
  for (const int workers : {1, 2, 7}) {
    int given = 0, wanted = 0;
    std::atomic<int> reading{0}, taking{0};
    std::atomic<bool> several{false};
    OrderedPipeline<Item>::run(workers, {[&](Item& item) {
                                           several = several || ++reading > 1;
                                           item.number = given++;
                                           --reading;
                                           return item.number < 2000;
                                         },
                                         [&](Item& item, int worker) {
                                           EXPECT_LT(worker, workers);
                                           item.result = work_on(item.number);
                                         },
                                         [&](Item& item) {
                                           several = several || ++taking > 1;
                                           EXPECT_EQ(item.number, wanted++);
                                           EXPECT_EQ(item.result, work_on(item.number));
                                           --taking;
                                         }});
    EXPECT_EQ(wanted, 2000);
    EXPECT_FALSE(several);
  }
}

TEST(OrderedPipeline, OneWorkerIsTheCaller) {
  std::set<std::thread::id> threads;
  int left = 10;
  const auto note = [&] { threads.insert(std::this_thread::get_id()); };
  OrderedPipeline<Item>::run(1, {[&](Item&) {
                                   note();
                                   return left-- > 0;
                                 },
                                 [&](Item&, int) { note(); }, [&](Item&) { note(); }});
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(OrderedPipeline, AnErrorOfAnyStageStopsAllOfThem) {
  for (const int stage : {0, 1, 2}) {
    int given = 0;
    const auto fail_at = [&](int here, const Item& item) {
      if (here == stage && item.number == 50) throw std::runtime_error("stage " + std::to_string(here));
    };
    try {
      OrderedPipeline<Item>::run(3,
                                 {[&](Item& item) {  // never ends by itself
                                    item.number = given++;
                                    fail_at(0, item);
                                    return true;
                                  },
                                  [&](Item& item, int) { fail_at(1, item); }, [&](Item& item) { fail_at(2, item); }});
      ADD_FAILURE() << "no error";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "stage " + std::to_string(stage));
    }
  }
}

}  // namespace
}  // namespace trireme
