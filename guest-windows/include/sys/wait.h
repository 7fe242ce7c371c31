/* SPDX-License-Identifier: Apache-2.0
 * wait.h: a process of Windows ends with a number, and by no signal. */
#pragma once

#define WIFSIGNALED(status) 0
#define WTERMSIG(status) 0
#define WEXITSTATUS(status) (status)
