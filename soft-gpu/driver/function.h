// SPDX-License-Identifier: Apache-2.0
// function.h: what the calls on functions, kernels, modules and libraries share.
#pragma once
#include <memory>
#include <string>

#include "soft-gpu/driver/module.h"

namespace barcuda::soft::driver {

std::string read_file(const char* name);  // throws CUDA_ERROR_FILE_NOT_FOUND
std::string ptx_of_file(const char* name);
std::string ptx_of(const void* image, JitLog& log);

int attribute_of(const Function& function, CUfunction_attribute attribute);
enum class SetFor { function, kernel };
void set_attribute(Function& function, CUfunction_attribute attribute, int value, SetFor whom);
void parameter_info(const Function& function, std::size_t index, std::size_t* offset, std::size_t* size);
std::shared_ptr<Function> function_named(const Module& module, const char* name);
void global_named(const Module& module, const char* name, CUdeviceptr* address, std::size_t* size);

}  // namespace barcuda::soft::driver
