// SPDX-License-Identifier: Apache-2.0
// model_fixture.h: of tests that walk the orders of a model (model.h). They have one thread and no memory to speak of:
// sanitizers find nothing there that a plain build does not, and take twenty times as long.
#pragma once
#include <gtest/gtest.h>

#include "tests/unit/support/sanitized.h"

namespace barcuda::model {

struct Fixture : testing::Test {
    void SetUp() override {
        if (sanitized) GTEST_SKIP() << "a plain build walks all orders";
    }
};

}  // namespace barcuda::model
