/* The exports of a WebAssembly module, which load.mjs calls. Statuses are 0 or INLAY_*. */
#include "module.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static void *tensors[BUNDLE_MODULE_TENSORS];

/* The bytes of tensor `i`, rounded up to whole cache lines. */
static uint64_t tensor_bytes(const bundle_model *model, uint32_t i)
{
    const bundle_tensor *tensor = i < model->input_count ? &model->inputs[i] : &model->outputs[i - model->input_count];

    return (tensor->bytes + 63) / 64 * 64;
}

/* Starts the model, and reserves memory for the inputs and outputs. */
EXPORT(start) int bundle_module_start(void);
int bundle_module_start(void)
{
    const bundle_model *model = bundle_module.model;
    const uint32_t count = model->input_count + model->output_count;
    void *arena = model->arena_bytes > 0 ? pages_map(model->arena_bytes) : NULL;
    uint64_t bytes = 0;
    char *memory;
    int status =
        model->arena_bytes > 0 && arena == NULL ? INLAY_OUT_OF_MEMORY : bundle_start(model, arena, model->arena_bytes);

    for (uint32_t i = 0; i < count; i++)
        bytes += tensor_bytes(model, i);
    memory = status == INLAY_OK ? pages_map(bytes) : NULL;
    if (status == INLAY_OK && memory == NULL)
        status = INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        tensors[i] = memory;
        memory += tensor_bytes(model, i);
    }
    return status;
}

/* The address of the elements of tensor `i`: the inputs, then the outputs. */
EXPORT(tensor) void *bundle_module_address(uint32_t i);
void *bundle_module_address(uint32_t i)
{
    return i < BUNDLE_MODULE_TENSORS ? tensors[i] : NULL;
}

EXPORT(run) int bundle_module_run(void);
int bundle_module_run(void)
{
    const bundle_model *model = bundle_module.model;

    return bundle_run(model, (const void *const *)tensors, tensors + model->input_count);
}

/* Messages and descriptions end with a zero byte. */
EXPORT(error) const char *bundle_module_error(void);
const char *bundle_module_error(void)
{
    return bundle_error();
}

EXPORT(describe) const char *bundle_module_describe(void);
const char *bundle_module_describe(void)
{
    return bundle_module.description;
}

/* Where the contents of a separate file of weights are to be copied before the start. */
EXPORT(weights) const void *bundle_module_weights(void);
const void *bundle_module_weights(void)
{
    return bundle_module.weights;
}

/* Files.
 *
 * The C library's streams are linked although nothing is printed. A module imports nothing: the linker's --wrap
 * redirects their calls of WASI to functions that fail. */

enum { WASI_EBADF = 8 };
#define WASI(name) __wrap___imported_wasi_snapshot_preview1_##name

int WASI(fd_close)(int fd);
int WASI(fd_seek)(int fd, int64_t offset, int whence, void *out);
int WASI(fd_write)(int fd, const void *list, size_t count, void *out);

int WASI(fd_close)(int fd)
{
    (void)fd;
    return WASI_EBADF;
}

int WASI(fd_seek)(int fd, int64_t offset, int whence, void *out)
{
    (void)fd, (void)offset, (void)whence, (void)out;
    return WASI_EBADF;
}

int WASI(fd_write)(int fd, const void *list, size_t count, void *out)
{
    (void)fd, (void)list, (void)count, (void)out;
    return WASI_EBADF;
}
