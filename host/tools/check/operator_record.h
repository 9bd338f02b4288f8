/* check/operator_record.h - results of a case as bytes, which another process of the check can read. */
#ifndef CHECK_OPERATOR_RECORD_H
#define CHECK_OPERATOR_RECORD_H
#include "check/harness.h"

/* The types, shapes and elements of all outputs, with the bytes of strings. NULL: no memory. The caller frees it. */
char *operator_record(const harness_result *result, size_t *out_bytes);
/* Appends a record to the file; bytes 0: there is none. Errors show when the file is closed. */
void operator_record_write(FILE *file, const char *record, size_t bytes);
/* Reads the next record into memory of the arena. *out has no outputs if there is none. False: the file ends. */
bool operator_record_read(FILE *file, struct arena *arena, harness_result *out);
#endif
