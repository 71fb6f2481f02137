/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sanitized: SANITIZED is defined where a sanitizer has the allocator, so that a test can't put its own before it. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
