/* cmocka_all.h - cmocka and the headers that it requires. */
#ifndef CMOCKA_ALL_H
#define CMOCKA_ALL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#endif
