/* base/asan.h - WITH_ASAN is defined if the compiler inserts the checks of AddressSanitizer. */
#ifndef BASE_ASAN_H
#define BASE_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#endif
