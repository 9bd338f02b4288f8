/* A provider whose kernels are functions of a library with the C interface of TVM-FFI. kernels.def lists them; the
 * library is the file tvm_ffi.kernels in the folder of the plugin, or that of option library. */
#include "inlay/kit.h"
#include "abi.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

static const struct named {
    const char *op_type, *symbol;
} names[] = {
#define KERNEL(op, first, last, function) { op, "__tvm_ffi_" function },
#include "kernels.def"
#undef KERNEL
};

/* The open library; it stays open as long as the provider. */
struct library {
    void *handle;
    ffi_take_error take_error; /* NULL: the library does not need libtvm_ffi, so it has no messages */
    ffi_release release;
};

/* What prepare finds for a node. */
struct function {
    const struct library *library;
    ffi_function call;
    char name[64];
};

static const char *symbol_of(const char *op_type)
{
    for (size_t i = 0; i < KIT_COUNT(names); i++)
        if (strcmp(names[i].op_type, op_type) == 0)
            return names[i].symbol;
    return NULL;
}

enum { MOST_ARGUMENTS = 8 };

/* Functions get tensors only: no attributes, and every input. */
static bool supports(const kit_node *node, kit_refusal *why)
{
    const struct library *library = node->provider;

    if (node->info->attr_count > 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "remove the attributes", "the function takes no attributes");
    if (node->info->input_count + node->info->output_count > MOST_ARGUMENTS)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "use fewer tensors", "more than %d tensors", MOST_ARGUMENTS);
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_input(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "give every input", "input %u is omitted", i);
    if (dlsym(library->handle, symbol_of(kit_op_type(node))) == NULL)
        return kit_refuse(why, INLAY_REFUSE_OPTION, "add the function to the library", "the library has no %s",
                          symbol_of(kit_op_type(node)));
    return true;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const struct library *library = node->provider;
    struct function *function = calloc(1, sizeof *function); /* freed by the kit */
    void *address;

    if (function == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a function");
    address = dlsym(library->handle, symbol_of(kit_op_type(node)));
    memcpy(&function->call, &address, sizeof address); /* ISO C has no cast from an object to a function */
    function->library = library;
    (void)snprintf(function->name, sizeof function->name, "%s", symbol_of(kit_op_type(node)));
    *out_state = function;
    return INLAY_OK;
}

/* What a call passes for a tensor. */
struct argument {
    ffi_tensor tensor;
    int64_t strides[INLAY_MAX_RANK];
};

static void set_argument(struct argument *argument, const kit_tensor *tensor)
{
    int64_t stride = 1;

    for (uint32_t axis = tensor->rank; axis-- > 0;) {
        argument->strides[axis] = stride;
        stride *= tensor->dims[axis];
    }
    argument->tensor = (ffi_tensor){ .data = tensor->data,
                                     .device_type = FFI_CPU,
                                     .rank = (int32_t)tensor->rank,
                                     .type_code = FFI_FLOATS,
                                     .type_bits = 32,
                                     .type_lanes = 1,
                                     .dims = tensor->dims,
                                     .strides = argument->strides };
}

/* The message of the failed call. */
static inlay_status fail(const struct function *function, inlay_diag *diag)
{
    const struct library *library = function->library;
    ffi_error *error = NULL;

    if (library->take_error != NULL)
        library->take_error(&error);
    (void)inlay_fail(diag, INLAY_INTERNAL, "%s: %.*s", function->name, error != NULL ? (int)error->message.bytes : 6,
                     error != NULL ? error->message.data : "failed");
    if (error != NULL && library->release != NULL)
        (void)library->release(error);
    return INLAY_INTERNAL;
}

static inlay_status run(const kit_call *call)
{
    const struct function *function = call->state;
    const uint32_t count = call->in_count + call->out_count;
    struct argument arguments[MOST_ARGUMENTS];
    ffi_any values[MOST_ARGUMENTS], result = { .kind = FFI_NONE };

    for (uint32_t i = 0; i < count; i++) {
        set_argument(&arguments[i], i < call->in_count ? &call->in[i] : &call->out[i - call->in_count]);
        values[i] = (ffi_any){ .kind = FFI_TENSOR, .pointer = &arguments[i].tensor };
    }
    if (function->call(NULL, values, (int32_t)count, &result) != 0)
        return fail(function, call->diag);
    if (result.kind >= FFI_FIRST_OBJECT && function->library->release != NULL)
        (void)function->library->release(result.pointer); /* the results are in the outputs */
    return INLAY_OK;
}

/* The file tvm_ffi.kernels in the folder of the plugin. */
static void default_path(char path[PATH_MAX])
{
    static const char here;
    Dl_info info;
    const char *slash = NULL;

    if (dladdr(&here, &info) != 0)
        slash = strrchr(info.dli_fname, '/');
    (void)snprintf(path, PATH_MAX, "%.*s/tvm_ffi.kernels", slash != NULL ? (int)(slash - info.dli_fname) : 1,
                   slash != NULL ? info.dli_fname : ".");
}

static void find(void *handle, const char *name, void *out_function)
{
    void *address = dlsym(handle, name);

    memcpy(out_function, &address, sizeof address);
}

static inlay_status open_library(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    const char *given = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->s;
    struct library *library = calloc(1, sizeof *library);
    char path[PATH_MAX];

    (void)host;
    if (library == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a library");
    default_path(path);
    library->handle = dlopen(given != NULL ? given : path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        free(library);
        return inlay_fail(diag, INLAY_NOT_FOUND, "%.400s; name the library in option tvm_ffi.library", dlerror());
    }
    find(library->handle, "TVMFFIErrorMoveFromRaised", &library->take_error);
    find(library->handle, "TVMFFIObjectDecRef", &library->release);
    *out = library;
    return INLAY_OK;
}

static void close_library(void *provider)
{
    struct library *library = provider;

    (void)dlclose(library->handle);
    free(library);
}

static const kit_kernel kernels[] = {
#define KERNEL(op, first, last, function)                                                                              \
    { .op_type = op,                                                                                                   \
      .since_min = first,                                                                                              \
      .since_max = last,                                                                                               \
      .in_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT), KIT_BIT(FLOAT), KIT_BIT(FLOAT) },                                  \
      .supports = supports,                                                                                            \
      .prepare = prepare,                                                                                              \
      .run = run },
#include "kernels.def"
#undef KERNEL
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const inlay_option options[] = {
    { .name = "library",
      .doc = "the library with the functions; unset = tvm_ffi.kernels in the folder of the plugin",
      .kind = INLAY_OPTION_STRING },
};
static const kit_provider provider = { .name = "tvm_ffi",
                                       .description = "functions of a library with the C interface of TVM-FFI",
                                       .tables = tables,
                                       .table_count = 1,
                                       .options = options,
                                       .option_count = KIT_COUNT(options),
                                       .open = open_library,
                                       .close = close_library };
static const kit_plugin plugin = { .name = "tvm_ffi", .version = "1.0.0", .provider = &provider };
KIT_PLUGIN(plugin)
