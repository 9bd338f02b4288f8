/* inlay/inlay.h - running ONNX models from C.
 *
 *     inlay_diag diag = INLAY_DIAG_INIT;
 *     inlay_session *session = NULL;
 *     inlay_context *context = NULL;
 *     inlay_session_create("model.onnx", NULL, &session, &diag);         // load, optimise, choose providers, compile
 *     inlay_context_create(session, &context, &diag);                    // one per thread that runs
 *     inlay_value *x = NULL;
 *     inlay_value_borrow(INLAY_FLOAT, 4, dims, pixels, bytes, &x, &diag); // your memory, not copied
 *     inlay_context_set_input(context, 0, x, &diag);
 *     inlay_context_run(context, NULL, &diag);
 *     const inlay_value *y = inlay_context_output(context, 0);           // the runtime's memory, until the next run
 *
 * A session is immutable once created and may be used by any number of threads; a context is used by one thread at a
 * time. Values are reference-counted, immutable in shape, and may be shared between threads.
 *
 * fork(). A child may do all of this, with any number of threads. It may also go on with sessions, contexts and values
 * of the parent, its copies of them; but a session that runs on a device, or that another thread was in a call with
 * while the process forked, is refused by each call that uses it, at once, with INLAY_UNSUPPORTED: the child makes its
 * own. To destroy such a session or context does nothing. A run begun by inlay_context_run_async() is the parent's
 * alone. fork() itself ends the OpenMP workers of the thread that calls it, which its next loop starts again (their
 * threadprivate variables are lost), and waits while another thread loads plugins.
 *
 * Every call that can fail returns an inlay_status and takes an inlay_diag (may be NULL) that then names the place and
 * the fix. out_* arguments are NULL or zero after a failure. The library prints nothing, never exits, never aborts. */
#ifndef INLAY_INLAY_H
#define INLAY_INLAY_H
#include "inlay/status.h"
#include "inlay/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INLAY_API __attribute__((visibility("default")))
#else
#define INLAY_API
#endif

/* "1.0.0". */
INLAY_API const char *inlay_version(void);

/* ------------------------------------------------------------------ options
 *
 * Settings have one name everywhere: here, as --flag-names on the command line, in YAML, and as INLAY_NAMES in the
 * environment. Values may be given as text or typed; a wrong name or value is refused at once with the nearest right
 * one.
 *
 * Every value has a source, and a later source replaces what an earlier one set, in whatever order the calls come:
 * default, /etc/inlay/inlay.yaml, the user's inlay.yaml, a named file, the environment, the program itself. The library
 * reads files and environment only when asked to, with inlay_options_load() and inlay_options_load_environment(). */

typedef struct inlay_options inlay_options;
INLAY_API INLAY_NODISCARD inlay_status inlay_options_create(inlay_options **out_options, inlay_diag *diag);
INLAY_API void inlay_options_destroy(inlay_options *options);
/* For instance ("providers", "openblas,reference"), ("intra_threads", "2"), ("dim", "batch=4"),
 * ("plugin_dirs", "/opt/p"), ("reference.option", "value"). A second value replaces the first, but for lists
 * (INLAY_SETTING_LIST, INLAY_SETTING_PAIRS), where it is one more item; an empty text empties a list. */
INLAY_API inlay_status inlay_options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag);
INLAY_API inlay_status inlay_options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag);
/* Writes the current value as text into text (bytes long, cut to fit); INLAY_NOT_FOUND for an unknown name. */
INLAY_API inlay_status inlay_options_get(const inlay_options *options, const char *name, char *text, size_t bytes,
                                         inlay_diag *diag);

/* What an option is, for listings. */
typedef struct inlay_option_doc {
    uint64_t struct_size;
    const char *name;
    const char *doc;
    const char *default_value;
    uint32_t kind; /* INLAY_SETTING_* */
    uint32_t reserved;
    int64_t min, max; /* of INLAY_SETTING_INT; of the values of INLAY_SETTING_PAIRS, both 0 = these may be any text */
} inlay_option_doc;

/* What the text of an option is. */
enum {
    INLAY_SETTING_TEXT = 0,
    INLAY_SETTING_INT = 1,   /* from min to max; where that is 0 to 1, also true/false, yes/no, on/off */
    INLAY_SETTING_NAMES = 2, /* separated by commas */
    INLAY_SETTING_PATH = 3,
    INLAY_SETTING_PATHS = 4, /* separated by colons */
    INLAY_SETTING_LIST = 5,  /* items; a list of a later source replaces an earlier one whole */
    INLAY_SETTING_PAIRS = 6  /* items NAME=VALUE; those of all sources add up, each name follows its latest source */
};
/* The index-th option into *out_doc (set struct_size); INLAY_NOT_FOUND past the last. */
INLAY_API inlay_status inlay_options_describe(uint32_t index, inlay_option_doc *out_doc);

/* Where a value comes from, the later the stronger. */
enum {
    INLAY_SOURCE_DEFAULT = 0,
    INLAY_SOURCE_SYSTEM = 1, /* /etc/inlay/inlay.yaml */
    INLAY_SOURCE_USER = 2,   /* $XDG_CONFIG_HOME/inlay/inlay.yaml or ~/.config/inlay/inlay.yaml */
    INLAY_SOURCE_FILE = 3,   /* a file that was named to inlay_options_load */
    INLAY_SOURCE_ENVIRONMENT = 4,
    INLAY_SOURCE_PROGRAM = 5 /* inlay_options_set, and hence the flags of the command line */
};

/* Reads settings from a YAML file; samples/inlay.yaml shows all there is. path NULL reads the two standard files, where
 * they exist; the user's is left out when the process is privileged (AT_SECURE). Files of more than 1 MiB, that anybody
 * may write to, or that belong to neither root nor the user are refused. Every mistake goes to the options' log as one
 * line "FILE:LINE: what is wrong, and the fix", the first one also into diag; a file with a mistake sets nothing.
 *   INLAY_NOT_FOUND         path does not exist
 *   INLAY_IO_ERROR          the file cannot be read, or must not be
 *   INLAY_INVALID_ARGUMENT  a mistake in the file
 *   INLAY_LIMIT_EXCEEDED, INLAY_OUT_OF_MEMORY */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_load(inlay_options *options, const char *path, inlay_diag *diag);
/* Reads every option NAME from the variable INLAY_NAME (in capitals; items of lists separated by commas), and options
 * of providers from INLAY_OPTION ("reference.preview=true,..."). Does nothing when the process is privileged. Mistakes
 * as above, INLAY_INVALID_ARGUMENT. */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_load_environment(inlay_options *options, inlay_diag *diag);
/* Writes the path of the index-th standard file into text (bytes long), whether it exists or not; INLAY_NOT_FOUND past
 * the last. */
INLAY_API inlay_status inlay_options_standard_file(uint32_t index, char *text, size_t bytes);

/* inlay_options_set() that remembers where the value was found, for listings: "--policy". origin is copied. */
INLAY_API inlay_status inlay_options_set_from(inlay_options *options, const char *name, const char *value,
                                              const char *origin, inlay_diag *diag);

/* A value and where it comes from. */
typedef struct inlay_setting {
    uint64_t struct_size;
    const char *name;
    const char *text;   /* of one item, where the option is a list */
    const char *origin; /* "/etc/inlay/inlay.yaml:7", "INLAY_POLICY", "--policy", "default" */
    uint32_t source;    /* INLAY_SOURCE_* */
    uint32_t item;      /* its number in a list, from 0; INLAY_NONE: not an item, or the list is empty */
} inlay_setting;
/* The index-th of all values into *out_setting (set struct_size): every option in the order of
 * inlay_options_describe(), lists with each item, at last those of providers. Borrowed until the options change.
 * INLAY_NOT_FOUND past the last. */
INLAY_API inlay_status inlay_options_setting(const inlay_options *options, uint32_t index, inlay_setting *out_setting);

/* A line of the library's log: level is INLAY_LOG_* of plugin.h (0 error ... 3 debug). Any thread. */
typedef void (*inlay_log_fn)(void *user, uint32_t level, const char *text);
INLAY_API void inlay_options_set_log(inlay_options *options, inlay_log_fn log, void *user);
/* Called while a session is created: what is a phrase ("compiling region 3 of 7"), fraction runs from 0 to 1. Returning
 * non-zero cancels: the creation fails with INLAY_CANCELLED. */
typedef int (*inlay_progress_fn)(void *user, double fraction, const char *what);
INLAY_API void inlay_options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user);

/* Where the memory of runs comes from, instead of malloc: tensors that a run makes, the slab of intermediate values,
 * and workspace of steps that are sized in the run. Weights, plans and small objects come from malloc, buffers of a
 * device from its provider. Both functions are called by any thread, that of the last inlay_value_unref() among them,
 * and must be there until all contexts and values are gone. */
typedef struct inlay_allocator {
    uint64_t struct_size;
    void *user; /* first argument of both */
    /* bytes at a multiple of alignment, a power of two from 64; need not be cleared. NULL: there is no memory. */
    void *(*alloc)(void *user, uint64_t bytes, uint64_t alignment);
    void (*free)(void *user, void *memory, uint64_t bytes); /* bytes as they were asked for */
} inlay_allocator;
#define INLAY_ALLOCATOR_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(inlay_allocator), NULL, NULL, NULL                                                                      \
    }
/* For sessions created with these options; copied. NULL: malloc again. How much may be in use at a time is option
 * memory_budget. INLAY_INVALID_ARGUMENT: a function is missing. */
INLAY_API inlay_status inlay_options_set_allocator(inlay_options *options, const inlay_allocator *allocator,
                                                   inlay_diag *diag);

/* ------------------------------------------------------------------ values */

typedef struct inlay_value inlay_value;
enum { INLAY_KIND_TENSOR = 1, INLAY_KIND_SEQUENCE = 2, INLAY_KIND_OPTIONAL = 3, INLAY_KIND_MAP = 4 };

/* A tensor over the caller's memory, which must stay until the value is released and no run uses it. bytes must be at
 * least what dims need, and data aligned to its elements. STRING elements are inlay_str. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                                          void *data, uint64_t bytes, inlay_value **out_value,
                                                          inlay_diag *diag);
/* A zeroed tensor in memory of its own, aligned to 64 bytes. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                                          inlay_value **out_value, inlay_diag *diag);
/* A tensor of strings; texts are copied. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create_strings(uint32_t rank, const int64_t *dims,
                                                                  const inlay_str *texts, inlay_value **out_value,
                                                                  inlay_diag *diag);
/* A sequence, or an optional (count 0 or 1), of values of one type, each of which gains a reference. dtype is the
 * element type of its tensors, needed when it is empty. A map has two items: its keys, INT64 or STRING of rank 1, each
 * once, and as many values of type dtype. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create_list(uint32_t kind, inlay_dtype dtype,
                                                               inlay_value *const *items, uint32_t count,
                                                               inlay_value **out_value, inlay_diag *diag);
/* A tensor from the elements of a sparse one: values [n], and where they are, INT64 of [n] (positions in row-major
 * order) or [n, rank]. All others are 0; what is there twice counts as it is there last. No strings. Where a model
 * declares a sparse tensor (inlay_io_info.sparse), runs have it in this form. INLAY_INVALID_ARGUMENT: a place outside
 * dims. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_sparse(const inlay_value *values, const inlay_value *indices,
                                                               uint32_t rank, const int64_t *dims,
                                                               inlay_value **out_value, inlay_diag *diag);
/* The other way: the elements of a tensor in host memory that are not 0 (of all bits; -0 is kept), and their places as
 * [n, rank]. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_sparse(const inlay_value *value, inlay_value **out_values,
                                                             inlay_value **out_indices, inlay_diag *diag);
INLAY_API inlay_value *inlay_value_ref(inlay_value *value);
INLAY_API void inlay_value_unref(inlay_value *value); /* NULL is a no-op */

INLAY_API uint32_t inlay_value_kind(const inlay_value *value);
INLAY_API inlay_dtype inlay_value_dtype(const inlay_value *value);
INLAY_API uint32_t inlay_value_rank(const inlay_value *value);
INLAY_API const int64_t *inlay_value_dims(const inlay_value *value); /* [rank] */
INLAY_API int64_t inlay_value_count(const inlay_value *value);       /* elements of a tensor, items of a list */
INLAY_API void *inlay_value_data(const inlay_value *value);          /* NULL unless a tensor in host memory */
INLAY_API uint64_t inlay_value_bytes(const inlay_value *value);
INLAY_API const inlay_value *inlay_value_item(const inlay_value *value, uint32_t index); /* of a list; borrowed */

/* The provider in whose device's memory the tensor lies ("vulkan"); NULL: it is in host memory. Borrowed from value. */
INLAY_API const char *inlay_value_device(const inlay_value *value);
/* Copies the elements of a tensor into another of the same type and number of bytes; one may lie on a device, or both
 * on the same. No run may use either. */
INLAY_API inlay_status inlay_value_copy(const inlay_value *from, inlay_value *to, inlay_diag *diag);

/* Where the host reads and writes a tensor on a device whose memory is the host's too (unified): until the matching
 * inlay_value_unmap() no run may use it. INLAY_UNSUPPORTED: the device has memory of its own; inlay_value_copy() then.
 * A tensor in host memory is where inlay_value_data() says. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_map(inlay_value *value, void **out_data, inlay_diag *diag);
INLAY_API void inlay_value_unmap(inlay_value *value);
/* How other libraries name the memory of a tensor on a device; valid as long as the value. INLAY_UNSUPPORTED: it is in
 * host memory, or the device's provider does not tell. */
INLAY_API inlay_status inlay_value_native(const inlay_value *value, inlay_native_memory *out_memory, inlay_diag *diag);

/* Who comes first, where another library works on a tensor on a device, too, in a stream or queue of the device's API
 * (a cudaStream_t; the number that DLPack's protocol passes). Neither call waits, nor does the host later on.
 *  - after: what has been put into stream so far comes before what runs do with the value from now on; no run may use
 * it during the call. Where that work fails, so do they. Calls add up.
 *  - before: the run under way that has the value as an output (inlay_context_run_async) comes before what is put into
 *    stream from now on. Where there is none, the value is ready.
 * INLAY_UNSUPPORTED: the value lies in host memory, the provider of its device knows no streams (inlay.streams/1 of
 * inlay/extensions.h), or not this one; wait for the stream, or the run, then. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_after(inlay_value *value, uint64_t stream, inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_before(inlay_value *value, uint64_t stream, inlay_diag *diag);

/* DLPack (version 0.6 structs, a forward declaration here). In: takes ownership of the managed tensor and calls its
 * deleter when the value dies; CPU tensors that are dense row-major. Out: a view that holds a reference; of a tensor on
 * a device where its provider tells how others name the memory. Its structs have no stream: the consumer's goes to
 * inlay_value_before() when a value goes out, the producer's to inlay_value_after() when one comes in. */
struct DLManagedTensor;
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_dlpack(struct DLManagedTensor *tensor, inlay_value **out_value,
                                                               inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_dlpack(inlay_value *value, struct DLManagedTensor **out_tensor,
                                                             inlay_diag *diag);

/* The same for DLPack 1.x's versioned tensors. In: a major version other than 1 is INLAY_UNSUPPORTED, and so is one
 * that is flagged read-only, since a run may be told to write into a value; it remains the caller's then, as after
 * every failure. Out: version 1.0. */
struct DLManagedTensorVersioned;
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor,
                                                                         inlay_value **out_value, inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_dlpack_versioned(inlay_value *value,
                                                                       struct DLManagedTensorVersioned **out_tensor,
                                                                       inlay_diag *diag);

/* ------------------------------------------------------------------ plugins within the program
 *
 * A plugin need not be a file: one that is linked into the program, or made by it (tests, static linking, hosts in
 * other languages), is registered by its entry, inlay_plugin_open of inlay/plugin.h. Sessions that are created from
 * then on have it before those in directories; it stays until the process ends. It is opened within this call.
 * Registering the same entry again does nothing. Any thread. */
struct inlay_host;
struct inlay_plugin;
INLAY_API inlay_status inlay_plugin_register(inlay_status (*open)(const struct inlay_host *host,
                                                                  const struct inlay_plugin **out_plugin,
                                                                  inlay_diag *diag),
                                             inlay_diag *diag);

/* ------------------------------------------------------------------ devices */

/* A device that a provider could use. Texts are "" where there is nothing to say. */
typedef struct inlay_device {
    uint64_t struct_size;
    const char *provider;  /* "vulkan" */
    const char *name;      /* "NVIDIA H200" */
    const char *setting;   /* the option that chooses it, for inlay_options_set(): "vulkan.device", ... */
    const char *value;     /* ... and its value */
    const char *unusable;  /* why it can't be used; "": it can */
    const char *facts;     /* "subgroup=32; f16=yes" */
    uint64_t memory_bytes; /* 0 = unknown, likewise the next */
    uint64_t free_bytes;
    uint32_t kind;    /* INLAY_DEVICE_CPU, _GPU, _NPU, _OTHER */
    uint32_t unified; /* 1: its memory is the host's too */
} inlay_device;
typedef void (*inlay_device_fn)(void *user, const inlay_device *device);
/* Calls `device` for each device of each plugin that sessions with these options find; texts are borrowed for that
 * call. No device is opened. A provider that can't list its devices has one, a provider without a device one that is
 * unusable. options may be NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_device_list(const inlay_options *options, inlay_device_fn device,
                                                         void *user, inlay_diag *diag);

/* ------------------------------------------------------------------ sessions */

typedef struct inlay_session inlay_session;

/* Loads, checks, optimises, assigns and compiles. options may be NULL and is not kept. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create(const char *path, const inlay_options *options,
                                                            inlay_session **out_session, inlay_diag *diag);
/* The same from memory, which must stay for the life of the session ... */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create_from_bytes(const void *data, uint64_t bytes,
                                                                       const inlay_options *options,
                                                                       inlay_session **out_session, inlay_diag *diag);
/* ... or from an open file, which may be closed afterwards. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create_from_fd(int fd, const inlay_options *options,
                                                                    inlay_session **out_session, inlay_diag *diag);
/* All contexts must be gone. NULL is a no-op. A device that hung (option device_timeout_ms) gets four times that limit,
 * and at most ten seconds, to end its work, so that the process can end without a driver that still runs. */
INLAY_API void inlay_session_destroy(inlay_session *session);

/* An input or output of the model. dims[i] is the size, or -1 and dim_names[i] is the symbol's name ("" = nameless). */
typedef struct inlay_io_info {
    uint64_t struct_size;
    const char *name;
    uint32_t kind; /* INLAY_KIND_* */
    inlay_dtype dtype;
    uint32_t rank;     /* INLAY_RANK_UNKNOWN if so */
    uint32_t optional; /* 1: an input that has a default value */
    const int64_t *dims;
    const char *const *dim_names;
    inlay_dtype key_dtype; /* of maps, and of sequences of maps: INT64 or STRING; otherwise UNDEFINED */
    uint32_t sparse;       /* 1: the file declares a sparse tensor */
} inlay_io_info;
INLAY_API uint32_t inlay_session_input_count(const inlay_session *session);
INLAY_API uint32_t inlay_session_output_count(const inlay_session *session);
/* Fills *out_info (set struct_size); borrowed from the session. */
INLAY_API inlay_status inlay_session_input(const inlay_session *session, uint32_t index, inlay_io_info *out_info);
INLAY_API inlay_status inlay_session_output(const inlay_session *session, uint32_t index, inlay_io_info *out_info);
/* The index of the input or output of that name, INLAY_NONE if there is none. */
INLAY_API uint32_t inlay_session_find_input(const inlay_session *session, const char *name);
INLAY_API uint32_t inlay_session_find_output(const inlay_session *session, const char *name);

/* What the file says of itself. Texts are borrowed from the session, "" where the file says nothing. */
typedef struct inlay_model_info {
    uint64_t struct_size;
    const char *producer_name, *producer_version;
    const char *domain;
    const char *graph_name;
    const char *doc; /* doc_string of the model */
    int64_t model_version, ir_version;
    uint32_t metadata_count; /* of inlay_session_metadata */
    uint32_t reserved;
} inlay_model_info;
/* Fills *out_info (set struct_size). */
INLAY_API inlay_status inlay_session_model(const inlay_session *session, inlay_model_info *out_info);
/* The index-th of the model's metadata_props, in the order of the file; borrowed from the session. INLAY_NOT_FOUND past
 * the last. */
INLAY_API inlay_status inlay_session_metadata(const inlay_session *session, uint32_t index, const char **out_key,
                                              const char **out_value);

/* A provider of the session, or one that was asked for and could not be had. */
typedef struct inlay_session_provider_info {
    uint64_t struct_size;
    const char *name;
    const char *plugin_path;    /* the file that brought it; "" = none, unknown */
    const char *plugin_version; /* "" = unknown */
    const char *skipped;        /* why the session does without it, one line; NULL: it is in use */
} inlay_session_provider_info;
/* Fills *out_info (set struct_size), borrowed from the session: providers in use in the order of the option
 * "providers", then the others. INLAY_NOT_FOUND past the last. */
INLAY_API inlay_status inlay_session_provider(const inlay_session *session, uint32_t index,
                                              inlay_session_provider_info *out_info);

/* Memory of the session's runs, as inlay_allocator describes it. */
typedef struct inlay_memory_info {
    uint64_t struct_size;
    uint64_t used_bytes;   /* now: what contexts hold, and values that the caller keeps */
    uint64_t peak_bytes;   /* the most so far */
    uint64_t budget_bytes; /* option memory_budget; 0 = none */
    uint64_t allocations;  /* calls of the allocator so far */
} inlay_memory_info;
/* Fills *out_info (set struct_size). Any thread, also during runs. */
INLAY_API inlay_status inlay_session_memory(const inlay_session *session, inlay_memory_info *out_info);
/* inlay_value_create() in memory of the session's allocator and budget, not cleared but for STRING. It may outlive the
 * session. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_create(inlay_session *session, inlay_dtype dtype,
                                                                  uint32_t rank, const int64_t *dims,
                                                                  inlay_value **out_value, inlay_diag *diag);

/* A tensor in the memory of a provider's device (its default domain), not cleared; provider is one of the session. It
 * may be bound as an input, which is then not copied there, and as an output: the result of a run stays on the device,
 * to be an input of the next. inlay_value_data() of it is NULL. It may outlive the session. STRING is
 * INLAY_UNSUPPORTED, and so is a provider that works in host memory. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_create_on(inlay_session *session, const char *provider,
                                                                     inlay_dtype dtype, uint32_t rank,
                                                                     const int64_t *dims, inlay_value **out_value,
                                                                     inlay_diag *diag);

/* The same over memory that somebody else took of the same device: a handle of its driver (a VkBuffer) or an address of
 * the device. The memory must stay until the value is released and no run uses it. INLAY_UNSUPPORTED: the provider
 * can't take memory of that kind. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_wrap(inlay_session *session, const char *provider,
                                                                const inlay_native_memory *memory, inlay_dtype dtype,
                                                                uint32_t rank, const int64_t *dims,
                                                                inlay_value **out_value, inlay_diag *diag);
/* inlay_value_from_dlpack_versioned() of a tensor on the provider's device. Its producer's work on it must be done, or
 * inlay_value_after() be told of the producer's stream before the value is used. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_from_dlpack(inlay_session *session, const char *provider,
                                                                       struct DLManagedTensorVersioned *tensor,
                                                                       inlay_value **out_value, inlay_diag *diag);

/* Who runs what, and why, as text ("text") or JSON ("json"), in pieces through write. */
typedef void (*inlay_write_fn)(void *user, const char *text, size_t bytes);
INLAY_API inlay_status inlay_session_explain(const inlay_session *session, const char *format, inlay_write_fn write,
                                             void *user, inlay_diag *diag);

enum {
    INLAY_EXPLAIN_ALL = 1u << 0,    /* nothing is folded, cut or left out */
    INLAY_EXPLAIN_KERNELS = 1u << 1 /* also which kernels providers run nodes by, and why (inlay.kernels/1) */
};
struct inlay_context;
/* What else can be asked. Zero it, then set struct_size. Texts are read during the call. */
typedef struct inlay_explain_options {
    uint64_t struct_size;
    const char *format; /* "text" (NULL), "json" (`inlay explain --from FILE --html PAGE` makes a page of it) */
    uint32_t flags;     /* INLAY_EXPLAIN_* */
    uint32_t columns;   /* text: the width of the page in characters; 0 = 100 */
    const char *node;   /* all about the nodes whose name matches this glob, or whose operator does ("op:GLOB"): what
                           each provider answered, and why the others were not taken; NULL = the whole session */
    const char *const *what_ifs; /* [what_if_count] changes of the rules, taken together, and what would come of them:
                           "PATTERN=PROVIDER" (these nodes run there), "PATTERN!=PROVIDER" (they do not),
                           "-PROVIDER" (nothing does), "policy=cost", "policy=priority", "threads=N" */
    uint32_t what_if_count;
    uint32_t reserved;
    const struct inlay_context *measured; /* after runs with inlay_context_measure(): their times too; or NULL */
} inlay_explain_options;
/* The same, and more, see above. INLAY_INVALID_ARGUMENT: an unknown format or provider, a pattern that no node matches;
 * INLAY_UNSUPPORTED: format "html". Any thread, but not while `measured` runs. */
INLAY_API inlay_status inlay_session_explain_ex(const inlay_session *session, const inlay_explain_options *options,
                                                inlay_write_fn write, void *user, inlay_diag *diag);

/* Who runs what, as JSON that a later session follows without asking for costs (option "plan", a file of this text), in
 * pieces through write. */
INLAY_API inlay_status inlay_session_plan_save(const inlay_session *session, inlay_write_fn write, void *user,
                                               inlay_diag *diag);

/* ------------------------------------------------------------------ optimising files */

/* A step of the optimiser. Of a rewrite, node and text say what was done ("Mul becomes Gelu"); the summary of a pass
 * has node NULL, and nodes and costs before and after it. */
typedef struct inlay_optimize_event {
    uint64_t struct_size;
    const char *pass;
    const char *graph; /* name of the graph or body */
    const char *node;  /* NULL: the summary of the pass */
    const char *text;
    uint32_t nodes_before, nodes_after;   /* of all graphs; summaries only */
    double cost_before_ns, cost_after_ns; /* expected time of a run; 0 where costs were not asked for */
    uint64_t rewrite; /* counts from 1; what one rewrite does has one number. Option rewrite_limit stops after it */
} inlay_optimize_event;
typedef void (*inlay_optimize_fn)(void *user, const inlay_optimize_event *event);

typedef struct inlay_optimize_args {
    uint64_t struct_size;
    const char *out_path;      /* the optimised model, a regular file whole or not at all; NULL = write none */
    const char *external_file; /* a file name beside it for large tensors; NULL = all in one file */
    inlay_optimize_fn event;   /* hears every step; may be NULL */
    void *user;
    uint32_t with_costs;                /* 1: summaries have costs, which takes a while */
    uint32_t nodes_before, nodes_after; /* out */
    uint32_t reserved;                  /* opset of ai.onnx that the file is to import; 0 = that of the model */
} inlay_optimize_args;
#define INLAY_OPTIMIZE_ARGS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(inlay_optimize_args), NULL, NULL, NULL, NULL, 0, 0, 0, 0                                                \
    }

/* Runs the passes that options name (level, pass, no_pass) on the model at path and writes the result. Where a file is
 * written, no operator of a later opset than it imports is put in, and those of ONNX Runtime stay, so that the file is
 * valid for every runtime. options may be NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_optimize(const char *path, const inlay_options *options,
                                                      inlay_optimize_args *args, inlay_diag *diag);
/* The index-th pass of the optimiser, in the order in which they run, and the lowest level that has it; NULL past the
 * last. */
INLAY_API const char *inlay_optimize_pass(uint32_t index, uint32_t *out_level);

/* Which part of a model inlay_extract() writes: by the names of values, by patterns of nodes, or by number. */
typedef struct inlay_extract_args {
    uint64_t struct_size;
    const char *out_path;
    const char *external_file;  /* a file name beside it for large tensors; NULL = all in one file */
    const char *const *inputs;  /* [input_count] values at which the part begins; none = inputs of the model */
    const char *const *outputs; /* [output_count] values that it computes; none = outputs of the model */
    const char *const *nodes;   /* [node_count] instead: globs on names of nodes, or op:GLOB on operators ... */
    uint32_t input_count, output_count, node_count;
    uint32_t depth;                 /* ... and their neighbours up to so many edges away */
    uint32_t part, part_count;      /* instead: stage `part` of part_count, with as many nodes each */
    uint32_t nodes_kept, nodes_all; /* out: of the main graph */
} inlay_extract_args;
#define INLAY_EXTRACT_ARGS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(inlay_extract_args), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0                               \
    }

/* Writes a part of the main graph of the model at path as a model of its own: nodes with their bodies, the functions,
 * the constants that are read. Inputs and outputs have the types that inference finds at the cut. Stages run one after
 * another compute what the whole computes. options may be NULL. INLAY_INVALID_ARGUMENT: a name that is not there, an
 * input that the outputs do not depend on, one that is missing. */
INLAY_API INLAY_NODISCARD inlay_status inlay_extract(const char *path, const inlay_options *options,
                                                     inlay_extract_args *args, inlay_diag *diag);

/* ------------------------------------------------------------------ running */

typedef struct inlay_context inlay_context;

INLAY_API INLAY_NODISCARD inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context,
                                                            inlay_diag *diag);
INLAY_API void inlay_context_destroy(inlay_context *context);

/* Binds an input until it is bound anew; the context takes a reference. NULL unbinds. A device whose memory is the
 * host's (inlay_device.unified) reads it where it is, if it can be told of memory of others and this begins where the
 * device asks for; 4096 bytes are enough for any. Otherwise each graph that reads it there, the main one or a body,
 * copies it once. Values of inlay_session_value_create_on() and results of runs are never copied for it; what lies on
 * the device is once if the host reads it, too. */
INLAY_API inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value,
                                               inlay_diag *diag);
/* Has the run write output index into value (a tensor of the right type and at least the right size; a smaller one is
 * left alone and the runtime brings memory), without a copy where the plan allows it and the memory is no input's too.
 * What a device makes or reads whose memory is the host's is there under the condition of inlay_context_set_input(),
 * and is otherwise copied once. Whether a run did so: inlay_context_output() is then the same value;
 * INLAY_RUN_OUTPUTS_BOUND makes it a failure when it is not. NULL: the runtime brings memory. */
INLAY_API inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value,
                                                inlay_diag *diag);

typedef struct inlay_run_options {
    uint64_t struct_size;
    const uint32_t *cancel; /* another thread stores non-zero (atomically) to stop the run; NULL = not cancellable */
    uint64_t timeout_ns;    /* 0 = none */
    uint32_t flags;         /* INLAY_RUN_* */
    uint32_t reserved;
    uint32_t max_threads; /* threads of this run, at most the session's intra_threads; 0 = as many as these. For runs
                           * beside each other: those of few threads wait for each other less. Results are the same, bit
                           * for bit */
    uint32_t reserved2;
} inlay_run_options;
#define INLAY_RUN_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(inlay_run_options), NULL, 0, 0, 0, 0, 0                                                                 \
    }
enum {
    /* The run fails with INLAY_SHAPE_MISMATCH when an output does not fit the value that inlay_context_set_output()
     * gave it; the sentence names output and size. */
    INLAY_RUN_OUTPUTS_BOUND = 1u << 0
};

/* Runs the model on the bound inputs. The first run with new input shapes plans; later runs with the same shapes do not
 * allocate. options may be NULL. After a failure the outputs are gone, and the context can run again. */
INLAY_API inlay_status inlay_context_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);

/* on = 1: from now on runs of the context are timed step by step, for inlay_explain_options.measured; the latest 64
 * runs count, and an earlier measurement is forgotten. Such runs wait for devices after each step, so they are a little
 * slower. 0: no more. */
INLAY_API inlay_status inlay_context_measure(inlay_context *context, uint32_t on, inlay_diag *diag);

/* A run that goes on after the call: on a thread of the context, which is made with the first of them. done (may be
 * NULL) is called there when it is over, with what inlay_context_run() would have returned; it may start nothing and
 * destroy nothing. Until inlay_context_wait() has returned that status, nothing else of the context may be called but
 * wait; what options.cancel points to stays until then. INLAY_BUSY: a run is under way. */
typedef void (*inlay_done_fn)(void *user, inlay_status status);
INLAY_API INLAY_NODISCARD inlay_status inlay_context_run_async(inlay_context *context, const inlay_run_options *options,
                                                               inlay_done_fn done, void *user, inlay_diag *diag);
/* Waits for it for at most timeout_ns (UINT64_MAX: for as long as it takes; 0: only looks), and returns its status,
 * with its diag; INLAY_BUSY: it is not over yet. Without a run under way it returns what the last one did. */
INLAY_API inlay_status inlay_context_wait(inlay_context *context, uint64_t timeout_ns, inlay_diag *diag);

/* From now on runs of the context are profiled, step by step, until max_events steps are kept (0 = 262144); an earlier
 * profile is forgotten. on = 0 ends it. Like measured runs they wait for devices after each step. */
INLAY_API inlay_status inlay_context_profile(inlay_context *context, uint32_t on, uint32_t max_events,
                                             inlay_diag *diag);
/* What profiled runs took: format is "text", "json" (`inlay profile --from FILE --html PAGE` makes a page of it),
 * "trace" (Chrome's trace events, for Perfetto) or "stacks" (folded stacks with nanoseconds); "html" is
 * INLAY_UNSUPPORTED. Peaks: operations and bytes a second, for rooflines; 0 = unknown. Not while the context runs. */
INLAY_API inlay_status inlay_context_profile_write(const inlay_context *context, const char *format,
                                                   double peak_flops_per_s, double peak_bytes_per_s,
                                                   inlay_write_fn write, void *user, inlay_diag *diag);

/* What the machine does at most a second with integers of 8 bits and with floats of 16: rows of the profile that
 * compute so are held against these, not against the peak of inlay_context_profile_write(). 0 = unknown: they have no
 * roofline. After inlay_context_profile(), until the next. */
typedef struct inlay_peaks {
    uint64_t struct_size;
    double integer_ops_per_s, half_flops_per_s;
} inlay_peaks;
INLAY_API inlay_status inlay_context_profile_peaks(inlay_context *context, const inlay_peaks *peaks, inlay_diag *diag);

/* Output index of the last run, borrowed until the next run or destroy; NULL if there is none. Take a reference
 * (inlay_value_ref) to keep it longer: the runtime then gives the next run other memory. */
INLAY_API inlay_value *inlay_context_output(inlay_context *context, uint32_t index);

/* Numbers about the context's current plan. */
typedef struct inlay_plan_info {
    uint64_t struct_size;
    uint64_t slab_bytes;        /* memory for intermediate values and workspace, as planned */
    uint64_t lower_bound_bytes; /* the most bytes alive at any step: no plan needs less */
    uint64_t constant_bytes;    /* weights that the session holds mapped or copied */
    uint32_t step_count;
    uint32_t dynamic_step_count; /* steps whose shapes depend on data */
    double predicted_ns; /* what the last run should have taken, at its sizes, by the costs that the session knows */
} inlay_plan_info;
INLAY_API inlay_status inlay_context_plan(const inlay_context *context, inlay_plan_info *out_info);

/* ------------------------------------------------------------------ states
 *
 * Some models have inputs that are outputs of the run before: the keys and values that a language model has attended
 * to, the state of a recurrent layer. A context can keep them:
 *
 *     inlay_context_keep_states(context, 2048, &diag);      // room for 2048 tokens, for a start
 *     ...bind tokens, mask and positions; run; choose the next token; and again...
 *     inlay_context_state_rewind(context, length, &diag);   // the last tokens never were
 *
 * Inputs that are states are then left unbound. A state that a provider appends to in place lies in memory with room
 * for more rows: a run adds its own and copies nothing, and inlay_context_output() has no such output. What runs
 * compute is the same, bit for bit, as when the caller hands outputs on. Which inputs are states: option `state`, and
 * the names that exporters use. */

typedef struct inlay_state_info {
    uint64_t struct_size;
    uint32_t input, output; /* numbers of both */
    uint32_t axis;          /* along which the output is longer than the input; INLAY_NONE: it replaces it */
    uint32_t in_place;      /* 1: where sizes are known before the run, rows are added in place */
} inlay_state_info;
INLAY_API uint32_t inlay_session_state_count(const inlay_session *session);
/* Fills *out_info (set struct_size); INLAY_NOT_FOUND past the last. */
INLAY_API inlay_status inlay_session_state(const inlay_session *session, uint32_t index, inlay_state_info *out_info);

/* From now on the context keeps all states, which are empty. rows: the room to make along axes that grow; where more is
 * needed, it doubles. An input that is bound nonetheless is read instead, and its state stays as it is.
 * INLAY_NOT_FOUND: the model has no states. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_keep_states(inlay_context *context, uint64_t rows,
                                                                 inlay_diag *diag);
/* The rows of the states, 0 before the first run. */
INLAY_API int64_t inlay_context_state_length(const inlay_context *context);
/* Forgets what came after the first `length` rows; 0: all. States that do not grow can only be rewound to the
 * beginning, INLAY_UNSUPPORTED. */
INLAY_API inlay_status inlay_context_state_rewind(inlay_context *context, int64_t length, inlay_diag *diag);
/* The states become those of another context of the session, which keeps its own. */
INLAY_API inlay_status inlay_context_state_fork(inlay_context *context, const inlay_context *from, inlay_diag *diag);
/* A copy of the index-th state, row-major, for the caller to read or save; INLAY_NOT_FOUND: it is empty. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_state_get(const inlay_context *context, uint32_t index,
                                                               inlay_value **out_value, inlay_diag *diag);
/* The index-th state becomes a copy of the value, which has the type and shape of the input. */
INLAY_API inlay_status inlay_context_state_set(inlay_context *context, uint32_t index, const inlay_value *value,
                                               inlay_diag *diag);

/* ------------------------------------------------------------------ costs
 *
 * Who runs what is chosen by cost. Costs start from the providers' own models; a machine profile corrects these, and
 * measurements of a model's own layers replace them. Both lie in the cache folder (option cache_dir), from where every
 * later session takes them by itself. */

/* What to calibrate, beyond the options of a session, of which providers, plugin_dirs, cache_dir, the log and the
 * progress function count. Set struct_size; zero is a good value for the rest. */
typedef struct inlay_calibrate_options {
    uint64_t struct_size;
    const uint32_t *threads; /* [thread_count] threads of a run to measure with; none: 1, and all that there are */
    uint32_t thread_count;
    uint32_t quick;  /* 1: fewer runs of each kernel */
    double budget_s; /* for all of it; 0: 60 for each provider and number of threads, a quarter of that if quick */
} inlay_calibrate_options;
#define INLAY_CALIBRATE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(inlay_calibrate_options), NULL, 0, 0, 0                                                                 \
    }

/* What came of it. */
typedef struct inlay_calibrate_result {
    uint64_t struct_size;
    uint32_t provider_count;
    uint32_t kernel_count; /* measured, over all providers and thread counts */
    uint32_t line_count;   /* classes of kernels that have a fitted model of time now */
    uint32_t link_count;   /* copy links to and from the memory of devices */
    double median_error;   /* the median class is off by this factor at its median kernel, 1.08 for instance */
    double seconds;
    char path[1024]; /* the file that was written */
} inlay_calibrate_result;

/* Times operators on every provider, copies to and from every device, and writes the machine profile. Takes about half
 * a minute for each provider and number of threads, and budget_s at most, whatever else the machine does: where that is
 * too short for all, kernels are timed less often, and then some of each family are left out. When the progress
 * function gives up, INLAY_CANCELLED: what was there before is there still. options and what may be NULL; result may be
 * NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_calibrate(const inlay_options *options,
                                                       const inlay_calibrate_options *what,
                                                       inlay_calibrate_result *out_result, inlay_diag *diag);

/* A node that another provider should run, after what was measured. Texts are borrowed for the call. */
typedef struct inlay_tune_change {
    uint64_t struct_size;
    const char *node, *op_type;
    const char *from, *to; /* providers */
    double from_ns, to_ns; /* now, of both; to_ns of a group is that of all its nodes */
} inlay_tune_change;
typedef void (*inlay_tune_change_fn)(void *user, const inlay_tune_change *change);

/* How to tune. Set struct_size; zero is a good value for the rest. */
typedef struct inlay_tune_options {
    uint64_t struct_size;
    inlay_value *const *inputs; /* [input_count] the sizes to tune for; NULL, or a NULL in it: assumed, see assume */
    uint32_t input_count;
    uint32_t runs;              /* of each kernel, at most; 0 = as the budget allows */
    double budget_s;            /* seconds for all measurements; 0 = 60 */
    inlay_progress_fn progress; /* or NULL; non-zero stops, and what was measured so far is kept */
    void *progress_user;
    inlay_tune_change_fn change; /* or NULL: called for each, before inlay_tune returns */
    void *change_user;
} inlay_tune_options;
#define INLAY_TUNE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(inlay_tune_options), NULL, 0, 0, 0, NULL, NULL, NULL, NULL                                              \
    }

/* What came of it. Costs are of one run of the model, without bodies of loops and branches. */
typedef struct inlay_tune_result {
    uint64_t struct_size;
    uint32_t offer_count;    /* what providers offered to run, in all graphs of the model */
    uint32_t kernel_count;   /* different ones among the plausible */
    uint32_t known_count;    /* of these, that had a figure before */
    uint32_t measured_count; /* of these, measured now */
    uint32_t failed_count;   /* could not be run on made-up contents */
    uint32_t pruned_count;   /* offers far above the best for their nodes */
    uint32_t changed_count;  /* nodes that another provider should run */
    uint32_t stopped;        /* 1: the progress function gave up, or time was up */
    double before_ns;        /* predicted, as the session was assigned, by what was known before */
    double measured_ns;      /* the same assignment, by what is known now */
    double after_ns;         /* the best assignment, by what is known now */
    double seconds;
    /* The model was run both ways, where the figures lead to another assignment or may lead to other kernels; 0: it was
     * not. The figures are kept when a run takes no longer by them. */
    double run_before_ns;
    double run_after_ns;
    uint32_t dropped; /* 1: the figures are not kept, for no assignment by them was as fast as the one before */
    uint32_t reserved;
} inlay_tune_result;

/* Times the real executables of all plausible offers for the session's model and keeps the figures in the cache folder;
 * the next session of this or any other model with such layers uses them. The session itself stays as it is. how and
 * out_result may be NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_tune(inlay_session *session, const inlay_tune_options *how,
                                                  inlay_tune_result *out_result, inlay_diag *diag);

/* Keeps what the runs of this context took, kernel by kernel, where inlay_tune() keeps its figures: after at least one
 * run with inlay_context_measure(). Only kernels that were chosen are among them, at the sizes of the last run.
 * out_count (may be NULL) is how many different ones. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_record(inlay_context *context, uint32_t *out_count,
                                                            inlay_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
