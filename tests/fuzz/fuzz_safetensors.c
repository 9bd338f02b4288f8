/* Any bytes as a safetensors file: its tensors lie within it, or it is refused with a message of one line. */
#define _GNU_SOURCE
#include "model/safetensors.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Reads the ends of the tensors, so that a sanitizer detects those outside of the mapping. */
static void read_ends(const struct safetensors *file)
{
    volatile uint8_t byte = 0;

    for (uint32_t i = 0; i < file->count; i++) {
        const inlay_tensor_view *view = &file->tensors[i].view;
        const uint8_t *elements = view->data;

        if (view->bytes > 0)
            byte = (uint8_t)(byte + elements[0] + elements[view->bytes - 1]);
        if (safetensors_find(file, file->tensors[i].name) == NULL)
            __builtin_trap(); /* the tensor is not found by its name */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = graph_model_create();
    int fd = memfd_create("safetensors", MFD_CLOEXEC);
    struct safetensors file;
    inlay_status status;
    char path[64];

    if (model != NULL && fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        status = safetensors_open(model, path, &file, &diag);
        if (status == INLAY_OK)
            read_ends(&file);
        else if (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL)
            __builtin_trap(); /* no message, or one of several lines */
    }
    if (fd >= 0)
        (void)close(fd);
    graph_model_destroy(model);
    return 0;
}
