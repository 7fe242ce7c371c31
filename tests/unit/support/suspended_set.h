// SPDX-License-Identifier: Apache-2.0
// suspended_set.h: a folder with a suspended VM, for tests of those who wake it.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <span>
#include <string>

#include "host-bridge/suspended/set.h"

namespace barcuda::test {

// These bytes in frames, as a set has a client's memory.
inline std::string framed(const std::string& bytes) {
    const File file(memfd_create("frames", MFD_CLOEXEC));
    FrameWriter writer(file.fd());
    EXPECT_EQ(writer.add(std::as_bytes(std::span(bytes))).text(), "");
    EXPECT_EQ(writer.finish().text(), "");
    std::string all(static_cast<std::size_t>(lseek(file.fd(), 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file.fd(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
}

// `contents`: of each part that the description names.
inline void write_set(const std::string& folder, const Description& description,
                      const std::function<std::string(const std::string& name)>& contents) {
    SetWriter writer;
    ASSERT_EQ(writer.begin(folder).text(), "");
    for (const std::string& name : description.names()) {
        const std::string bytes = contents(name);
        const auto span = std::as_bytes(std::span(bytes));
        SetPlace::Sink sink;
        Digest digest;
        digest.add(span);
        ASSERT_EQ(writer.make(name, sink).text(), "");
        ASSERT_EQ(sink(span).text(), "");
        ASSERT_EQ(writer.finish(name, bytes.size(), digest).text(), "");
    }
    ASSERT_EQ(writer.commit(description).text(), "");
}

}  // namespace barcuda::test
