// SPDX-License-Identifier: Apache-2.0
// model_fixture.h: the fixture of tests that walk all orders of a model (model.h). A plain build walks them. They have
// one thread, whose fibers ThreadSanitizer does not follow, and under the others they take several times as long.
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
