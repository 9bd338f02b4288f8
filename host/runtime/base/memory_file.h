/* base/memory_file.h - a file of external data that a program has in memory (inlay_options_set_file()). */
#ifndef BASE_MEMORY_FILE_H
#define BASE_MEMORY_FILE_H
#include <stddef.h>

typedef struct memory_file {
    const char *location; /* the file's name in the tensors of the model */
    const void *bytes;    /* [count] borrowed */
    size_t count;
} memory_file;
#endif
