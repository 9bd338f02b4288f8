/* inlay/inlay.h - running ONNX models from C: the API of libinlay for applications.
 *
 *     inlay_diag diag = INLAY_DIAG_INIT;
 *     inlay_session *session = NULL;
 *     inlay_context *context = NULL;
 *     inlay_session_create("model.onnx", NULL, &session, &diag);         // load, optimise, choose providers, compile
 *     inlay_context_create(session, &context, &diag);                    // one per thread that runs
 *     inlay_value *x = NULL;
 *     inlay_value_borrow(INLAY_FLOAT, 4, dims, pixels, bytes, &x, &diag); // the caller's memory, not copied
 *     inlay_context_set_input(context, 0, x, &diag);
 *     inlay_context_run(context, NULL, &diag);
 *     inlay_value *y = inlay_context_output(context, 0);                 // borrowed until the next run
 *
 * Terms (all of them are in sdk/docs/pages/glossary.md):
 *     option    a setting with a name and a text value; the same name in files, in the environment and as a flag
 *     session   a model that is loaded, optimised, assigned to providers and compiled
 *     context   the inputs, outputs and memory of the runs of one thread
 *     value     a tensor, a sequence, a map or an optional value; reference-counted
 *     provider  what runs the nodes of a model on a CPU or device; it comes from a plugin
 *     status    the result of a call (inlay/status.h); the inlay_diag has the message of a failure
 *     borrow    to use without owning: the owner keeps the object valid
 *
 * Errors. A call that can fail returns an inlay_status. Most of these calls take an inlay_diag (may be NULL); after a
 * failure it holds a one-line message with the place and the fix. After a failure, pointers to new objects (out_*) are
 * NULL, and the contents of other out_* arguments are meaningless. Comments list the statuses to expect; any call that
 * allocates may also return INLAY_OUT_OF_MEMORY. The library prints nothing, never exits and never aborts, with two
 * exceptions: option crash_report prints, and builds with INLAY_CHECKS (inlay/check.h) abort.
 *
 * Arguments. Texts are NUL-terminated; paths are passed to the system unchanged. Pointers must not be NULL unless the
 * comment permits it. Arguments are read during the call unless the comment says otherwise. Objects of *_create
 * functions belong to the caller, who passes them to the matching *_destroy function or to inlay_value_unref().
 * Callbacks return normally (no C++ exception, no longjmp). They must not use the object or the options of the call in
 * progress.
 *
 * Structs. Set struct_size to sizeof the struct before the call; the library reads and writes only the fields that are
 * within struct_size. A call that only fills a struct returns INLAY_INVALID_ARGUMENT if its struct_size is not set. Set
 * `reserved` fields to 0.
 *
 * Threads. A session may be used by any number of threads; only inlay_session_update() changes it. A context may be
 * used by one thread at a time. Values may be shared between threads; their elements are not protected against
 * concurrent access. The element type and the shape of a value are fixed, with one exception: a run that writes its
 * result into a value of inlay_context_set_output() gives the value the shape of the result.
 *
 * Compatibility. Programs that were built for an earlier library of the same soname (libinlay.so.1) work unchanged.
 * Functions, constants and fields are only added. A program that calls a newer function does not start with an older
 * library. An older library ignores the fields of later versions. It rejects an unknown number in a field that it
 * knows, such as an action of a later version. A program treats an unknown status as inlay/status.h states, and any
 * other unknown number as "other".
 *
 * Small library. A library that is built with CMake option INLAY_SMALL exports every function, but lacks some parts.
 * inlay_calibrate(), inlay_tune(), inlay_session_explain(), inlay_context_measure(), inlay_context_record() and the
 * three functions inlay_context_profile...() return INLAY_UNSUPPORTED there, as does the creation of a session with a
 * GGUF file or the options placement and watchdog. Option isolate opens no plug-in, and inlay_plan_info.predicted_ns is
 * 0.
 *
 * fork(). A child process may call every function, from any number of threads. It may also continue to use its copies
 * of the parent's sessions, contexts and values, with two exceptions: a session that runs on a device, and a session in
 * which another thread was executing a call during the fork. Every call that uses such a session fails at once with
 * INLAY_UNSUPPORTED; the child has to create its own session. Destroying such a session or its contexts has no effect.
 * A run started by inlay_context_run_async() belongs to the parent only. fork() ends the OpenMP workers of the calling
 * thread, and their threadprivate variables are lost; the next parallel loop of the thread starts new workers. fork()
 * waits while another thread loads plugins. */
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

/* Returns the version of the library, for instance "0.1.0". Static text. The version of the plugin ABI is
 * INLAY_ABI_MAJOR and INLAY_ABI_MINOR of plugin.h. */
INLAY_API const char *inlay_version(void);

/* Options.
 *
 * An option has one name everywhere: in this API, as --flag-name on the command line, in YAML files, and as INLAY_NAME
 * in the environment. Values are given as text or as integers. An unknown name or an invalid value is rejected at once;
 * the message names the closest known name, or the valid values. Options of a provider, "PROVIDER.OPTION", are an
 * exception: they are checked when a session opens the provider.
 *
 * Every value has a source. A value from a later source replaces one from an earlier source, independently of the order
 * of the calls. The sources are, in this order: the default, /etc/inlay/inlay.yaml, the user's inlay.yaml, a file named
 * by the caller, the environment, the program itself. Options come from files and from the environment only in
 * inlay_options_load() and inlay_options_load_environment(). (Apart from options, the library reads these variables:
 * HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME and TMPDIR for the paths of folders; INLAY_ISA, which limits the
 * instruction-set level, when the process chooses its first kernel; INLAY_CPU_KIND, a name of `inlay explain --on`, for
 * prices. Libraries that providers open read further variables.)
 *
 * An inlay_options object may be used by one thread at a time. Sessions copy what they need, so it may be changed or
 * destroyed after a session has been created with it. */

typedef struct inlay_options inlay_options;
/* Creates options that all have their default values. */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_create(inlay_options **out_options, inlay_diag *diag);
/* Since 1.1. Creates a copy of options: values with their sources and origins, files, allocator, log and progress
 * functions. options may be NULL: default values. */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_copy(const inlay_options *options, inlay_options **out_copy,
                                                          inlay_diag *diag);
/* NULL is a no-op. */
INLAY_API void inlay_options_destroy(inlay_options *options);
/* Sets an option. Examples: ("intra_threads", "2"), ("providers", "openblas,reference"), ("plugin_dirs", "/opt/p"),
 * ("dim", "batch=4"), ("reference.option", "value"). A later value replaces the earlier one, with one exception: an
 * option of kind INLAY_SETTING_LIST or INLAY_SETTING_PAIRS (such as dim) is extended by it, and a pair replaces an
 * earlier pair of the same name. The text of a list may hold several items, separated by commas; an empty text clears
 * the list. In pairs and in option pin, a comma before the `=` is part of the name.
 *     INLAY_NOT_FOUND         the name is unknown
 *     INLAY_INVALID_ARGUMENT  the value is invalid
 *     INLAY_LIMIT_EXCEEDED    the list has too many items */
INLAY_API inlay_status inlay_options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag);
/* The same with the decimal text of value. */
INLAY_API inlay_status inlay_options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag);
/* Writes the current value as NUL-terminated text into text, an array of `bytes` bytes. Items of a list are separated
 * by commas. *out_bytes (may be NULL) is the size of the whole text with its NUL; 0 if the name is not found. bytes 0
 * only asks for that size: text may then be NULL.
 *     INLAY_NOT_FOUND         the name is unknown, or an option of a provider that is not set
 *     INLAY_LIMIT_EXCEEDED    bytes is smaller than *out_bytes (and not 0): text holds what fits, NUL-terminated */
INLAY_API inlay_status inlay_options_get(const inlay_options *options, const char *name, char *text, size_t bytes,
                                         size_t *out_bytes, inlay_diag *diag);

/* Description of an option, for listings. The texts are static. */
typedef struct inlay_option_doc {
    uint64_t struct_size;
    const char *name;
    const char *doc;           /* one line */
    const char *default_value; /* as text; "" = empty, or an empty list */
    uint32_t kind;             /* INLAY_SETTING_* */
    uint32_t reserved;
    /* inclusive range of INLAY_SETTING_INT, or of the values of INLAY_SETTING_PAIRS (0, 0: any text); otherwise 0 */
    int64_t min, max;
    const char *choices; /* INLAY_SETTING_ENUM: the valid values, "auto|always|never"; otherwise "" */
} inlay_option_doc;

/* Types of options. */
enum {
    INLAY_SETTING_TEXT = 0,
    INLAY_SETTING_INT = 1,   /* from min to max; if the range is 0 to 1, also true/false, yes/no, on/off */
    INLAY_SETTING_NAMES = 2, /* names separated by commas */
    INLAY_SETTING_PATH = 3,
    INLAY_SETTING_PATHS = 4, /* paths separated by colons */
    INLAY_SETTING_LIST = 5,  /* items; the list of a later source replaces the whole list of an earlier one */
    /* items NAME=VALUE; the items of all sources are merged, and a name has the value of the latest source */
    INLAY_SETTING_PAIRS = 6,
    INLAY_SETTING_ENUM = 7 /* one of inlay_option_doc.choices */
};
/* Describes the option at position index, from 0, in *out_doc (set struct_size). INLAY_NOT_FOUND: index is past the
 * last option. INLAY_INVALID_ARGUMENT: struct_size is not set. */
INLAY_API inlay_status inlay_options_describe(uint32_t index, inlay_option_doc *out_doc);

/* Sources of values, in ascending priority. */
enum {
    INLAY_SOURCE_DEFAULT = 0,
    INLAY_SOURCE_SYSTEM = 1, /* /etc/inlay/inlay.yaml */
    INLAY_SOURCE_USER = 2,   /* $XDG_CONFIG_HOME/inlay/inlay.yaml or ~/.config/inlay/inlay.yaml */
    INLAY_SOURCE_FILE = 3,   /* a file passed to inlay_options_load */
    INLAY_SOURCE_ENVIRONMENT = 4,
    INLAY_SOURCE_PROGRAM = 5 /* inlay_options_set, and hence the flags of the command line */
};

/* Reads options from a YAML file; samples/inlay.yaml shows the complete format. If path is NULL, reads the two standard
 * files, if they exist; the user's file is skipped if the process is privileged (AT_SECURE). Files are rejected if they
 * are larger than 1 MiB, writable by others (or by a group that is neither root's nor the owner's own), or owned by
 * neither root nor the user. Each mistake is passed to the log function (inlay_options_set_log) as one line
 * "FILE:LINE: problem and fix"; diag receives the first one. A file with a mistake sets no option.
 *     INLAY_NOT_FOUND         path does not exist
 *     INLAY_IO_ERROR          the file cannot be read, or its owner or permissions are rejected
 *     INLAY_INVALID_ARGUMENT  a mistake in the file
 *     INLAY_LIMIT_EXCEEDED    the file is too large */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_load(inlay_options *options, const char *path, inlay_diag *diag);
/* Reads every option NAME from the environment variable INLAY_NAME (in capitals; items of lists separated by commas),
 * and options of providers from INLAY_OPTION ("reference.preview=true,..."). Has no effect if the process is
 * privileged. Mistakes are reported as by inlay_options_load(), with INLAY_INVALID_ARGUMENT. */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_load_environment(inlay_options *options, inlay_diag *diag);
/* Writes the path of the standard file at position index, from 0, into text, an array of `bytes` bytes, whether the
 * file exists or not. INLAY_NOT_FOUND: index is past the last file. INLAY_LIMIT_EXCEEDED: the path does not fit;
 * PATH_MAX (4096) bytes suffice. */
INLAY_API inlay_status inlay_options_standard_file(uint32_t index, char *text, size_t bytes);

/* Like inlay_options_set(), and records the origin of the value for listings, for instance "--policy". origin is
 * copied. */
INLAY_API inlay_status inlay_options_set_from(inlay_options *options, const char *name, const char *value,
                                              const char *origin, inlay_diag *diag);

/* The value of an option, and its origin. */
typedef struct inlay_setting {
    uint64_t struct_size;
    const char *name;
    const char *text;   /* the value; of a list, the text of one item */
    const char *origin; /* "/etc/inlay/inlay.yaml:7", "INLAY_POLICY", "--policy", "default" */
    uint32_t source;    /* INLAY_SOURCE_* */
    uint32_t item;      /* position in a list, from 0; INLAY_NONE: not a list, or the list is empty */
} inlay_setting;
/* Reports the value at position index in *out_setting (set struct_size): every option in the order of
 * inlay_options_describe(), lists item by item, then the options of providers. The texts are borrowed until the options
 * change. INLAY_NOT_FOUND: index is past the last value. INLAY_INVALID_ARGUMENT: struct_size is not set. */
INLAY_API inlay_status inlay_options_setting(const inlay_options *options, uint32_t index, inlay_setting *out_setting);

/* Receives one line of the log, from the library or from any plugin of the process. level is INLAY_LOG_* of host.h
 * (0 error, 1 warning, 2 info, 3 debug). Called from any thread. text is borrowed for the call. The function must not
 * call the library. */
typedef void (*inlay_log_fn)(void *user, uint32_t level, const char *text);
/* Sets the log function; NULL (the default): no log. log and user must stay valid until all sessions that were created
 * with these options are destroyed. */
INLAY_API void inlay_options_set_log(inlay_options *options, inlay_log_fn log, void *user);
/* Receives the progress of a call that takes long, such as inlay_session_create(). `what` is a phrase ("optimising",
 * "compiling"), borrowed for the call; fraction runs from 0 to 1. A return value other than 0 cancels: the call fails
 * with INLAY_CANCELLED. One thread at a time calls the function; it need not be the thread of the call, because a
 * plugin that compiles may report from its own threads. */
typedef int (*inlay_progress_fn)(void *user, double fraction, const char *what);
/* Sets the progress function; NULL (the default): none. It is called only within the calls that get these options. */
INLAY_API void inlay_options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user);

/* An allocator that replaces malloc for the memory of runs: the tensors that a run creates, the slab of intermediate
 * values, and the workspace of steps that are sized during the run. Weights, plans and small objects still come from
 * malloc, and device buffers from their provider. Both functions are called from any thread, including the thread of
 * the last inlay_value_unref(). They must outlive every session, context and value. */
typedef struct inlay_allocator {
    uint64_t struct_size;
    void *user; /* first argument of both functions */
    /* Returns `bytes` bytes at a multiple of alignment (a power of two, at least 64), not necessarily cleared. NULL:
     * out of memory. */
    void *(*alloc)(void *user, uint64_t bytes, uint64_t alignment);
    void (*free)(void *user, void *memory, uint64_t bytes); /* bytes: the size passed to alloc */
} inlay_allocator;
#define INLAY_ALLOCATOR_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(inlay_allocator), NULL, NULL, NULL                                                                      \
    }
/* Since 1.1. Gives the contents of a file of external data to sessions that are created, and to files that are written,
 * with these options. `location` is the name in the model, with or without "./" at its beginning. The contents take
 * precedence over a file of that name in the model's folder. location is copied; data, [bytes], is borrowed, and must
 * stay valid and unchanged for the lifetime of these sessions. A later call for the same location replaces the
 * contents; data NULL removes them. INLAY_INVALID_ARGUMENT: location is empty. */
INLAY_API INLAY_NODISCARD inlay_status inlay_options_set_file(inlay_options *options, const char *location,
                                                              const void *data, uint64_t bytes, inlay_diag *diag);
/* Sets the allocator of sessions that are created with these options. *allocator is copied; NULL restores malloc.
 * Option memory_budget limits the memory in use at a time. INLAY_INVALID_ARGUMENT: struct_size or a function is not
 * set. */
INLAY_API inlay_status inlay_options_set_allocator(inlay_options *options, const inlay_allocator *allocator,
                                                   inlay_diag *diag);

typedef struct inlay_value inlay_value; /* a tensor, or a list: a sequence, an optional or a map */
enum { INLAY_KIND_TENSOR = 1, INLAY_KIND_SEQUENCE = 2, INLAY_KIND_OPTIONAL = 3, INLAY_KIND_MAP = 4 };

/* Creates a tensor over the caller's memory. The memory must stay valid until the last reference to the value is
 * released and no run uses it. bytes must be at least the size that dims require, and data aligned to the element size
 * (8 bytes always suffice; COMPLEX64: 4). STRING elements are inlay_str. data may be NULL if there are no elements.
 * dims ([rank], in elements) is copied; NULL if rank is 0. INLAY_INVALID_ARGUMENT: an argument violates this, dtype is
 * unknown, a dim is negative, or rank is above INLAY_MAX_RANK. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                                          void *data, uint64_t bytes, inlay_value **out_value,
                                                          inlay_diag *diag);
/* Creates a tensor in newly allocated memory, zero-filled and aligned to 64 bytes. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                                          inlay_value **out_value, inlay_diag *diag);
/* Creates a tensor of strings. dims and texts ([number of elements]) are copied. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create_strings(uint32_t rank, const int64_t *dims,
                                                                  const inlay_str *texts, inlay_value **out_value,
                                                                  inlay_diag *diag);
/* Creates a sequence, an optional (count 0 or 1) or a map, according to kind (INLAY_KIND_*). dtype is the element type
 * of all items, also when there are none; the value takes a reference to each item. A map has two items: the keys, a
 * tensor of INT64 or STRING of rank 1 without duplicates, and the values, a tensor of type dtype, of rank 1 and of the
 * same length. INLAY_UNSUPPORTED: an item is in device memory. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_create_list(uint32_t kind, inlay_dtype dtype,
                                                               inlay_value *const *items, uint32_t count,
                                                               inlay_value **out_value, inlay_diag *diag);
/* Creates a dense tensor from a sparse one: values has shape [n]; indices has type INT64 and shape [n] (positions in
 * row-major order) or [n, rank]. All other elements are 0. For duplicate indices the last value wins. STRING and types
 * of less than 8 bits are not supported. Inputs and outputs that the model declares as sparse tensors
 * (inlay_io_info.sparse) have this dense form at run time. INLAY_INVALID_ARGUMENT: a type or shape is not as stated, or
 * an index is out of range. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_sparse(const inlay_value *values, const inlay_value *indices,
                                                               uint32_t rank, const int64_t *dims,
                                                               inlay_value **out_value, inlay_diag *diag);
/* The inverse of inlay_value_from_sparse(): returns two new tensors, the non-zero elements of value (compared bit by
 * bit, so -0 is kept) with shape [n], and their indices with shape [n, rank]. INLAY_UNSUPPORTED: value is no tensor in
 * host memory, or its element type is STRING or has less than 8 bits. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_sparse(const inlay_value *value, inlay_value **out_values,
                                                             inlay_value **out_indices, inlay_diag *diag);
/* Adds a reference and returns value; NULL is a no-op. Any thread. */
INLAY_API inlay_value *inlay_value_ref(inlay_value *value);
/* Releases a reference; the last one destroys the value. NULL is a no-op. Any thread. */
INLAY_API void inlay_value_unref(inlay_value *value);

/* Properties of a value. Pointers are borrowed from it. A list has the dtype of its items (a map: the dtype of its
 * values), rank 0 and a size of 0 bytes. */
INLAY_API uint32_t inlay_value_kind(const inlay_value *value); /* INLAY_KIND_* */
INLAY_API inlay_dtype inlay_value_dtype(const inlay_value *value);
INLAY_API uint32_t inlay_value_rank(const inlay_value *value);
INLAY_API const int64_t *inlay_value_dims(const inlay_value *value); /* [rank] */
INLAY_API int64_t inlay_value_count(const inlay_value *value);       /* elements of a tensor, items of a list */
INLAY_API void *inlay_value_data(const inlay_value *value);          /* NULL unless it is a tensor in host memory */
INLAY_API uint64_t inlay_value_bytes(const inlay_value *value);      /* size of a tensor's elements in bytes */
/* Returns an item of a list; NULL: index is past the last item, or value is a tensor. */
INLAY_API const inlay_value *inlay_value_item(const inlay_value *value, uint32_t index);

/* Returns the name of the provider whose device memory holds the tensor ("vulkan"), or NULL if it is in host memory.
 * Borrowed from value. */
INLAY_API const char *inlay_value_device(const inlay_value *value);
/* Copies the elements of a tensor into another tensor of the same type and size in bytes. Each tensor may be in host
 * memory or in device memory. No run may use either tensor during the call.
 *     INLAY_INVALID_ARGUMENT  different types or sizes, or tensors of strings
 *     INLAY_UNSUPPORTED       the tensors are on two devices; copy through host memory
 *     INLAY_DEVICE_LOST       the device failed, or did not finish the copy, or the work before it, within a minute
 * If the copy is not finished within a minute, the device may access both tensors at any later time. The tensors, the
 * device's provider and the sessions that use this provider are then never freed, and memory that the caller lent to
 * the tensors must stay valid until the process ends. */
INLAY_API inlay_status inlay_value_copy(const inlay_value *from, inlay_value *to, inlay_diag *diag);

/* Maps a tensor in device memory that the host can access (on a device with unified memory, inlay_device.unified), so
 * that the host can read and write its elements at *out_data. The call waits for the work of streams passed to
 * inlay_value_wait_stream(), and fails if that work failed. No run may use the tensor until inlay_value_unmap(), and a
 * mapped tensor must not be mapped again. For a tensor in host memory, *out_data is inlay_value_data(), and the call
 * does not wait.
 *     INLAY_UNSUPPORTED  the host cannot access the memory; use inlay_value_copy()
 *     INLAY_DEVICE_LOST  the work of the streams did not end within a minute */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_map(inlay_value *value, void **out_data, inlay_diag *diag);
INLAY_API void inlay_value_unmap(inlay_value *value);
/* Fills *out_memory with the identity of a device tensor's memory for other libraries; valid as long as the value. Set
 * struct_size, and kind to the kind of handle that you need (0: INLAY_MEMORY_DEVICE). If the result is a file
 * descriptor with INLAY_MEMORY_OWNED, close it. INLAY_UNSUPPORTED: the tensor is in host memory, or the device's
 * provider cannot export it as such a handle. */
INLAY_API inlay_status inlay_value_native(const inlay_value *value, inlay_native_memory *out_memory, inlay_diag *diag);

/* Orders runs and the work that another library does on the same device tensor, in a stream or queue of the device's
 * API (a cudaStream_t; the number that DLPack's protocol passes). Neither call blocks. Of all later calls, only
 * inlay_value_copy() and inlay_value_map() wait for the work of the streams.
 *  - wait_stream: runs that use the value from now on wait until the work submitted to stream so far is done. No run
 *    may use the value during the call. If that work fails, these runs fail. Several calls accumulate.
 *  - signal_stream: work submitted to stream from now on waits for the asynchronous run in progress
 *    (inlay_context_run_async) that has the value as a bound output, and for the work of an earlier wait_stream.
 *    If there is neither, the value is ready, and the call does nothing.
 *
 * INLAY_UNSUPPORTED: the value is in host memory, the device's provider does not support streams (inlay.streams/1 of
 * inlay/extensions.h), or it does not accept this stream. Wait for the stream, or for the run, instead. */
INLAY_API INLAY_NODISCARD inlay_status inlay_value_wait_stream(inlay_value *value, uint64_t stream, inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_signal_stream(inlay_value *value, uint64_t stream, inlay_diag *diag);

/* Conversion from and to DLPack tensors (structs of version 0.6, forward-declared here). from_dlpack takes ownership of
 * the managed tensor and calls its deleter when the value is destroyed; after a failure the tensor still belongs to the
 * caller. to_dlpack returns a view that holds a reference to the value; the receiver calls the view's deleter.
 * INLAY_UNSUPPORTED: from_dlpack, if the tensor is not dense row-major in CPU memory; to_dlpack, if the value is a list
 * or its provider cannot export memory; both, if the element type has no counterpart. DLPack's structs carry no stream:
 * before handing a value to a consumer, pass the consumer's stream to inlay_value_signal_stream(); after receiving a
 * tensor, pass the producer's stream to inlay_value_wait_stream(). */
struct DLManagedTensor;
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_dlpack(struct DLManagedTensor *tensor, inlay_value **out_value,
                                                               inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_dlpack(inlay_value *value, struct DLManagedTensor **out_tensor,
                                                             inlay_diag *diag);

/* The two conversions for the versioned tensors of DLPack 1.x. from_dlpack_versioned returns INLAY_UNSUPPORTED for a
 * major version other than 1 and for a tensor that is flagged read-only, because a run may write into a bound value.
 * to_dlpack_versioned produces version 1.0. */
struct DLManagedTensorVersioned;
INLAY_API INLAY_NODISCARD inlay_status inlay_value_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor,
                                                                         inlay_value **out_value, inlay_diag *diag);
INLAY_API INLAY_NODISCARD inlay_status inlay_value_to_dlpack_versioned(inlay_value *value,
                                                                       struct DLManagedTensorVersioned **out_tensor,
                                                                       inlay_diag *diag);

/* Plugins within the program.
 *
 * A plugin need not be a shared object. inlay_plugin_register() registers a plugin that is linked into the program
 * (tests, static linking, hosts in other languages) by its entry point, inlay_plugin_open of inlay/plugin.h, and calls
 * the entry point. Sessions created afterwards search this plugin before the plugins in directories. The plugin stays
 * registered until the process ends. Registering the same entry point again has no effect. Any thread. If the entry
 * point fails, its status is returned.
 *     INLAY_UNSUPPORTED       the plugin was built for another ABI, or sets flags or fields that this library does not
 *                             know
 *     INLAY_INVALID_ARGUMENT  open is NULL, the plugin's description is invalid, or another registered plugin has its
 *                             name or one of its providers or operators */
struct inlay_host;
struct inlay_plugin;
INLAY_API inlay_status inlay_plugin_register(inlay_status (*open)(const struct inlay_host *host,
                                                                  const struct inlay_plugin **out_plugin,
                                                                  inlay_diag *diag),
                                             inlay_diag *diag);

/* A device that a provider can use. Unknown texts are "". */
typedef struct inlay_device {
    uint64_t struct_size;
    const char *provider;  /* "vulkan" */
    const char *name;      /* "NVIDIA H200" */
    const char *setting;   /* the option that chooses it, for inlay_options_set(): "vulkan.device", ... */
    const char *value;     /* ... and its value */
    const char *unusable;  /* why the device cannot be used; "" if it can be used */
    const char *facts;     /* "subgroup=32; f16=yes" */
    uint64_t memory_bytes; /* capacity; 0 = unknown */
    uint64_t free_bytes;   /* currently available; 0 = unknown */
    uint32_t kind;         /* INLAY_DEVICE_CPU ... */
    uint32_t unified;      /* 1: the device shares the host's memory; 0: its memory is separate, or unknown */
} inlay_device;
typedef void (*inlay_device_fn)(void *user, const inlay_device *device);
/* Calls `device`, on the calling thread, for each device of each provider that sessions with these options would find.
 * Opens no device. *device and its texts are borrowed for the callback. A provider that cannot list its devices reports
 * one device, named after the provider's description. A provider whose listing fails, for instance because there is no
 * driver, reports one unusable device, with the reason. options may be NULL. INLAY_NOT_FOUND: a folder of option
 * plugin_dirs does not exist. */
INLAY_API INLAY_NODISCARD inlay_status inlay_device_list(const inlay_options *options, inlay_device_fn device,
                                                         void *user, inlay_diag *diag);

typedef struct inlay_session inlay_session;

/* Loads, validates and optimises the model of a file or of a package (a folder), assigns its nodes to providers, and
 * compiles it. options may be NULL (all defaults; the environment and configuration files are not read). Failures:
 *     INLAY_NOT_FOUND         the model file, or a folder of option plugin_dirs, does not exist
 *     INLAY_INVALID_ARGUMENT  an option names a provider, or an option of a provider, that does not exist
 *     INLAY_IO_ERROR          the file cannot be read
 *     INLAY_INVALID_MODEL     the file is not a valid model
 *     INLAY_UNSUPPORTED       no provider supports a node, or the device of a provider is not available
 *     INLAY_LIMIT_EXCEEDED    a limit of the loader, or of option memory_limit or max_partitions
 *     INLAY_CANCELLED         the progress function returned non-zero */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create(const char *path, const inlay_options *options,
                                                            inlay_session **out_session, inlay_diag *diag);
/* Like inlay_session_create(), from a model in memory, which must stay valid and unchanged for the lifetime of the
 * session; values that outlive the session do not refer to it. External tensor data is found by option external_dir,
 * or given by inlay_options_set_file(). */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create_from_bytes(const void *data, uint64_t bytes,
                                                                       const inlay_options *options,
                                                                       inlay_session **out_session, inlay_diag *diag);
/* Like inlay_session_create(), from an open file descriptor, which the caller may close afterwards. A regular file is
 * read from its start, not from the position of fd; a pipe is read to its end. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_create_from_fd(int fd, const inlay_options *options,
                                                                    inlay_session **out_session, inlay_diag *diag);
/* Destroys a session. All of its contexts must have been destroyed; values may outlive it. NULL is a no-op. If a device
 * hung (option device_timeout_ms), the memory of the session is never freed, because the device may still access it.
 * In that case the call waits four times device_timeout_ms, at most ten seconds, for the device to end its work, so
 * that the driver is idle when the process exits. */
INLAY_API void inlay_session_destroy(inlay_session *session);

/* Replaces weights. names [count] are names of initializers in the file: of the main graph or of a body of If, Loop or
 * Scan, also of initializers with external data and of defaults of inputs. values[i] is the new value of names[i], a
 * dense tensor in host memory of the same type and shape, which is copied. All values of a call are one change: a run
 * uses either none of them or all. Runs in progress finish on the old weights; every run that begins after the call has
 * returned uses the new ones. Contexts, bound values and states stay; a context that measures or profiles keeps its
 * weights until that ends. The results are the same, bit for bit, as those of a session of the changed model.
 *
 * The model is optimised again, which takes as long as at creation. Regions that do not depend on the weights stay as
 * they are, in shared memory; the others are compiled again. Engines of a provider that caches them are cached as at
 * creation; nothing is written to the cache of packed weights. A context changes to the new weights at its next run;
 * when no context uses the old ones, their packed copies are released. Other sessions of the model keep their weights.
 *
 * Any thread, also during runs, but not from a callback of the session; concurrent calls are serialised.
 * After a failure the session is unchanged, and diag names the weight:
 *     INLAY_NOT_FOUND         the model has no such initializer
 *     INLAY_INVALID_ARGUMENT  a name is given twice, or several graphs of the model have it; a value is no tensor
 *     INLAY_SHAPE_MISMATCH    a value has another type or shape than the weight
 *     INLAY_UNSUPPORTED       a value is in device memory, an output would have another type or shape, or no provider
 *                             supports a node with the new weights
 *     INLAY_INVALID_MODEL     the model is not valid with the new weights, as with a shape that does not fit
 *     INLAY_LIMIT_EXCEEDED    old and new weights together exceed option memory_limit
 *     INLAY_BUSY              a provider of the session is suspended
 * Since 1.1. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_update(inlay_session *session, uint32_t count,
                                                            const char *const *names, inlay_value *const *values,
                                                            inlay_diag *diag);

/* An input or output of the model. dims[i] is the size in elements, or -1 if it is not fixed; dim_names[i] is then the
 * name of the symbol ("" = unnamed), otherwise "". All pointers are borrowed from the session. */
typedef struct inlay_io_info {
    uint64_t struct_size;
    const char *name;
    uint32_t kind;                /* INLAY_KIND_* */
    inlay_dtype dtype;            /* of the tensor, or of the tensors in a list */
    uint32_t rank;                /* INLAY_RANK_UNKNOWN if it is not known */
    uint32_t optional;            /* 1: an input with a default value, which need not be bound */
    const int64_t *dims;          /* [rank] */
    const char *const *dim_names; /* [rank] */
    inlay_dtype key_dtype;        /* of maps, and of sequences of maps: INT64 or STRING; otherwise UNDEFINED */
    uint32_t sparse;              /* 1: the file declares a sparse tensor */
    /* Since 1.1. The shape that the file declares, if it declares one, with the sizes that inference found, but without
     * the names and expressions that inference introduced for open sizes. ONNX Runtime reports this shape. */
    uint32_t declared_rank;
    uint32_t reserved;
    const int64_t *declared_dims;          /* [declared_rank] */
    const char *const *declared_dim_names; /* [declared_rank] */
} inlay_io_info;
INLAY_API uint32_t inlay_session_input_count(const inlay_session *session);
INLAY_API uint32_t inlay_session_output_count(const inlay_session *session);
/* Fills *out_info (set struct_size). INLAY_NOT_FOUND: index is past the last input or output. */
INLAY_API inlay_status inlay_session_input(const inlay_session *session, uint32_t index, inlay_io_info *out_info);
INLAY_API inlay_status inlay_session_output(const inlay_session *session, uint32_t index, inlay_io_info *out_info);
/* Returns the index of the input or output with this name, INLAY_NONE if it does not exist. */
INLAY_API uint32_t inlay_session_find_input(const inlay_session *session, const char *name);
INLAY_API uint32_t inlay_session_find_output(const inlay_session *session, const char *name);

/* Metadata of the model file: the fields of ONNX's ModelProto. Texts are borrowed from the session; "" if the file has
 * none. */
typedef struct inlay_model_info {
    uint64_t struct_size;
    const char *producer_name, *producer_version;
    const char *domain;
    const char *graph_name;
    const char *doc; /* doc_string of the model */
    int64_t model_version, ir_version;
    uint32_t metadata_count; /* number of entries of inlay_session_metadata */
    uint32_t reserved;
} inlay_model_info;
/* Fills *out_info (set struct_size). */
INLAY_API inlay_status inlay_session_model(const inlay_session *session, inlay_model_info *out_info);
/* Returns the model's metadata_props entry at position index, in the order of the file. The texts are borrowed from the
 * session. INLAY_NOT_FOUND: index is past the last entry. */
INLAY_API inlay_status inlay_session_metadata(const inlay_session *session, uint32_t index, const char **out_key,
                                              const char **out_value);

/* A provider of the session, an optional provider that could not be opened, or one whose plugin worked before and is in
 * quarantine. */
typedef struct inlay_session_provider_info {
    uint64_t struct_size;
    const char *name;
    const char *plugin_path;    /* path of its plugin; "(within the program)": inlay_plugin_register(); "" = unknown */
    const char *plugin_version; /* "" = unknown */
    const char *skipped; /* one line: why the session does not use it; "quarantined: ..." if its plugin crashed or
                                   hung, "quarantined for this model: ..." if it crashed with this model and may be used
                                   for others; NULL: it is in use */
    /* Since 1.1. The device that the provider opened; NULL, NULL and 0 if it is skipped or describes no device. */
    const char *device;       /* its name */
    const char *device_facts; /* further properties: "driver=550.1; subgroup=32" */
    uint32_t device_kind;     /* INLAY_DEVICE_* of plugin.h */
    uint32_t reserved;
} inlay_session_provider_info;
/* Fills *out_info (set struct_size; texts are borrowed from the session): first the providers in use, in the order of
 * option "providers", then the others. INLAY_NOT_FOUND: index is past the last provider. */
INLAY_API inlay_status inlay_session_provider(const inlay_session *session, uint32_t index,
                                              inlay_session_provider_info *out_info);

/* A request to a provider of the session. Zero it, then set struct_size. */
typedef struct inlay_control_request {
    uint64_t struct_size;
    const char *provider; /* its name */
    const char *option;   /* SET_OPTION: name of an option of the provider */
    const char *value;    /* SET_OPTION: the new value as text; NULL = the default */
    uint64_t bytes;       /* TRIM: the number of unused bytes that may stay */
    uint64_t freed_bytes; /* out, TRIM: bytes that were released */
    uint32_t action;      /* INLAY_CONTROL_* */
    uint32_t reserved;
} inlay_control_request;
/* Asks a provider to change an option, to release memory, or to suspend its device. Sessions with the same options for
 * a provider share it: the request concerns all of them. After SET_OPTION later sessions still find the provider by the
 * options that it was opened with. SUSPEND waits for the runs that are in progress. Until RESUME, runs of the sessions
 * that share the provider, new sessions, and functions that use its memory fail with INLAY_BUSY; no tensor of the
 * provider may be mapped. Any thread, also during runs, but not from a callback of a run.
 *     INLAY_NOT_FOUND         the session has no provider of this name
 *     INLAY_INVALID_ARGUMENT  the action or the option is unknown, or the option cannot have this value
 *     INLAY_UNSUPPORTED       the provider does not support the action */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_control(inlay_session *session, inlay_control_request *request,
                                                             inlay_diag *diag);

/* Host memory of the session's runs, in bytes; inlay_allocator states which memory counts. */
typedef struct inlay_memory_info {
    uint64_t struct_size;
    uint64_t used_bytes;   /* in use by contexts and by values that the caller holds */
    uint64_t peak_bytes;   /* highest value of used_bytes so far; with option ladder the sum of those of its variants */
    uint64_t budget_bytes; /* option memory_budget; 0 = none */
    uint64_t allocations;  /* number of allocations so far */
} inlay_memory_info;
/* Fills *out_info (set struct_size). Any thread, also during runs. */
INLAY_API inlay_status inlay_session_memory(const inlay_session *session, inlay_memory_info *out_info);

/* What option watchdog has done so far. An execution is that of one region in one run. */
typedef struct inlay_watchdog_info {
    uint64_t struct_size;
    uint64_t checked; /* executions whose results were computed again and compared */
    uint64_t wrong;   /* of `checked`, executions with wrong results */
    /* chosen executions that were not checked, because earlier checks were not finished, or because the checks had used
     * their share of CPU time */
    uint64_t dropped;
    uint64_t skipped; /* chosen executions of regions whose results have no error bound; the log has the reasons */
    uint64_t cpu_ns;  /* CPU time of the checks in nanoseconds */
    uint32_t finding_count; /* see inlay_session_watchdog_finding(); at most 64 are kept */
    uint32_t reserved;
} inlay_watchdog_info;
/* Fills *out_info (set struct_size); all 0 without option watchdog. wait: 1 = first waits until all executions that
 * were chosen so far are checked. Any thread, also during runs, but not from a callback of a run. */
INLAY_API inlay_status inlay_session_watchdog(inlay_session *session, uint32_t wait, inlay_watchdog_info *out_info);

/* A wrong result. Texts are borrowed until the session is destroyed. */
typedef struct inlay_watchdog_finding {
    uint64_t struct_size;
    const char *provider;
    const char *kernel;     /* "" = the provider does not name the kernel */
    const char *op_type;    /* operator of the node */
    const char *node;       /* the wrong node; if there are several, the first of them */
    const char *output;     /* name of the output with the largest error */
    const char *text;       /* the whole message, one line */
    const char *model_path; /* a model file of these nodes, whose inputs have the values as defaults; "" = none */
    double error;        /* the largest error; infinity if one of the two numbers is not finite, or the shapes differ */
    double bound;        /* the largest error that counts as right */
    uint32_t node_count; /* 1, or more if the nodes are wrong only together */
    uint32_t reserved;
} inlay_watchdog_finding;
/* Fills *out_finding (set struct_size). Any thread, also during runs. INLAY_NOT_FOUND: index is past the last
 * finding. */
INLAY_API inlay_status inlay_session_watchdog_finding(inlay_session *session, uint32_t index,
                                                      inlay_watchdog_finding *out_finding);
/* Returns to the system the memory that only later runs would use, for instance after a run on large inputs: for each
 * context that no call uses, its intermediate values and prepared input sizes; the session's prepared sizes that no
 * context uses, except those of option sizes; memory that providers do not use; mapped pages of the model's files; free
 * memory of malloc. Runs in progress and their contexts are not affected, and a run that begins meanwhile waits for its
 * context to be trimmed. The next run of a context prepares its input sizes again. Outputs of the last run, bound
 * values and states stay as they are. Contexts that measure or profile are skipped; if a device hangs, nothing is
 * released. Allocates nothing. Option idle_trim_ms does this for each context that had no run for that time. Any
 * thread, also during runs, but not from a callback of a run. The status is that of the first provider that cannot
 * release its memory. */
INLAY_API inlay_status inlay_session_trim(inlay_session *session, inlay_diag *diag);
/* Like inlay_value_create(), with the session's allocator and memory budget. The elements are not cleared, except
 * STRING. The value may outlive the session. INLAY_LIMIT_EXCEEDED: over the budget. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_create(inlay_session *session, inlay_dtype dtype,
                                                                  uint32_t rank, const int64_t *dims,
                                                                  inlay_value **out_value, inlay_diag *diag);

/* Creates a tensor in the device memory of a provider of the session (its default memory domain), not cleared. Bound as
 * an input, it is not copied to the device; bound as an output, it keeps the result on the device, where the next run
 * can use it as an input. inlay_value_data() returns NULL for it. The value may outlive the session.
 *     INLAY_NOT_FOUND      the session has no provider of this name
 *     INLAY_OUT_OF_MEMORY  host or device memory could not be allocated
 *     INLAY_UNSUPPORTED    dtype is STRING, or the provider uses host memory */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_create_on(inlay_session *session, const char *provider,
                                                                     inlay_dtype dtype, uint32_t rank,
                                                                     const int64_t *dims, inlay_value **out_value,
                                                                     inlay_diag *diag);

/* Creates a tensor over existing memory of the provider's device, given by a handle of its driver (a VkBuffer), by a
 * device address, or by a file descriptor (a camera's DMA-buf, POSIX shared memory). The memory must stay valid until
 * the last reference to the value is released and no run uses it. A descriptor of a BORROWED memory may be closed after
 * the call; the descriptor of an OWNED memory belongs to the library if the call succeeds, otherwise still to the
 * caller. A pitch that equals the size of a row counts as 0.
 *     INLAY_NOT_FOUND         the session has no provider of this name
 *     INLAY_INVALID_ARGUMENT  memory->bytes is below the size that dims require, or pitch below that of a row
 *     INLAY_UNSUPPORTED       dtype is STRING, the provider uses host memory, or it cannot import memory of this
 *                             kind, with this modifier, or with a pitch */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_wrap(inlay_session *session, const char *provider,
                                                                const inlay_native_memory *memory, inlay_dtype dtype,
                                                                uint32_t rank, const int64_t *dims,
                                                                inlay_value **out_value, inlay_diag *diag);
/* Like inlay_value_from_dlpack_versioned(), for a tensor on the provider's device. The producer's work on it must be
 * finished; otherwise pass the producer's stream to inlay_value_wait_stream() before using the value. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_value_from_dlpack(inlay_session *session, const char *provider,
                                                                       struct DLManagedTensorVersioned *tensor,
                                                                       inlay_value **out_value, inlay_diag *diag);

/* Receives consecutive pieces of a text, borrowed for the call and not NUL-terminated. */
typedef void (*inlay_write_fn)(void *user, const char *text, size_t bytes);

enum {
    INLAY_EXPLAIN_ALL = 1u << 0,     /* the whole report, nothing summarised or truncated */
    INLAY_EXPLAIN_KERNELS = 1u << 1, /* also the kernels that providers chose, and why (inlay.kernels/1) */
    /* also the time, the energy and the memory of the assignment that each value of option objective leads to */
    INLAY_EXPLAIN_OBJECTIVES = 1u << 2,
    /* also the times of this assignment on 1, 2, 4, 8 and 16 threads, as the prices predict them, with the barriers,
     * the waiting and the longest chain of nodes */
    INLAY_EXPLAIN_SCALING = 1u << 3
};
struct inlay_context;
/* Contents and format of a report. Zero it, then set struct_size. */
typedef struct inlay_explain_options {
    uint64_t struct_size;
    /* "text" (NULL), "json" (`inlay explain --from FILE --html PAGE` converts it to a page), or "line": how many nodes
     * each provider runs, why not all are on one, and the expected time, without the other members */
    const char *format;
    uint32_t flags;   /* INLAY_EXPLAIN_* */
    uint32_t columns; /* text: line width in characters, at most 400; 0 = 100 */
    /* details of the nodes whose name matches this glob, or whose operator does ("op:GLOB"): the answer of each
     * provider, and why it was not chosen; NULL = the whole session */
    const char *node;
    /* [what_if_count] hypothetical changes, applied together; the report then shows their effect: "PATTERN=PROVIDER"
     * (run these nodes there), "PATTERN!=PROVIDER" (do not run them there), "-PROVIDER" (do not use it), "policy=cost",
     * "policy=priority", "objective=NAME" (latency, energy, memory), "margins=none" (only prices count, not their
     * errors nor the order of providers), "threads=N" */
    const char *const *what_ifs;
    uint32_t what_if_count;
    uint32_t reserved;
    /* adds the times of a context that ran with inlay_context_measure(); or NULL */
    const struct inlay_context *measured;
} inlay_explain_options;
/* Reports which provider runs each node, and why. options may be NULL: the report as text. INLAY_INVALID_ARGUMENT: an
 * unknown format, flag or provider, a pattern that matches no node, or `measured` of another session.
 * INLAY_UNSUPPORTED: format "html". Any thread, but not while `measured` runs. */
INLAY_API inlay_status inlay_session_explain(const inlay_session *session, const inlay_explain_options *options,
                                             inlay_write_fn write, void *user, inlay_diag *diag);

/* Writes the assignment of nodes to providers as JSON, by calls of write. A later session whose option "plan" names a
 * file with this text uses that assignment and does not query costs. Any thread. */
INLAY_API inlay_status inlay_session_plan_save(const inlay_session *session, inlay_write_fn write, void *user,
                                               inlay_diag *diag);

/* A step of the optimiser. For a rewrite, node and text describe the change ("Mul becomes Gelu"). The summary of a pass
 * has node NULL, and node counts and costs before and after it. Texts are borrowed for the callback. */
typedef struct inlay_optimize_event {
    uint64_t struct_size;
    const char *pass;
    const char *graph; /* name of the graph, or of the body of a control-flow node */
    const char *node;  /* NULL: the summary of the pass */
    const char *text;
    uint32_t nodes_before, nodes_after;   /* number of nodes of all graphs; 0 unless a summary */
    double cost_before_ns, cost_after_ns; /* expected time of a run; 0 unless a summary and with_costs is set */
    /* number of the rewrite, from 1; all changes of one rewrite have the same number, and option rewrite_limit is
     * compared with it. 0 in a summary. 0 with a node: a near miss, reported only if with_costs is set: a pattern
     * nearly matches the node, and text says which condition failed. */
    uint64_t rewrite;
} inlay_optimize_event;
/* Called on the thread of inlay_optimize(). */
typedef void (*inlay_optimize_fn)(void *user, const inlay_optimize_event *event);

/* Arguments and results of inlay_optimize(). Start from INLAY_OPTIMIZE_ARGS_INIT. */
typedef struct inlay_optimize_args {
    uint64_t struct_size;
    /* path of the optimised model; the file is written completely or not at all, and is replaced if it exists; it must
     * be a regular file. NULL = only events and node counts */
    const char *out_path;
    const char *external_file; /* file name, in the same folder, for large tensors; NULL = one file */
    inlay_optimize_fn event;   /* called for every step; may be NULL */
    void *user;                /* first argument of event */
    uint32_t with_costs; /* 1: compute costs for summaries, which takes longer, and report patterns that nearly match */
    uint32_t nodes_before, nodes_after; /* out: nodes of all graphs before and after */
    uint32_t target_opset;              /* the opset of ai.onnx that the written file imports; 0 = that of the model */
    /* since 1.1: the model in memory, [data_bytes], if path is NULL; external data as for
     * inlay_session_create_from_bytes() */
    const void *data;
    uint64_t data_bytes;
} inlay_optimize_args;
#define INLAY_OPTIMIZE_ARGS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(inlay_optimize_args), NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, 0                                       \
    }

/* Runs the passes that options select (level, pass, no_pass) on the model at path and writes the result. A written file
 * contains no operator of a later opset than it imports, and keeps the operators of com.microsoft. Pass skip_layer_norm
 * adds such operators, which ONNX Runtime supports; without it (option no_pass) every runtime that can load the model
 * can load the file. options may be NULL. Statuses as of inlay_session_create(). INLAY_INVALID_ARGUMENT:
 * args->struct_size is not set. */
INLAY_API INLAY_NODISCARD inlay_status inlay_optimize(const char *path, const inlay_options *options,
                                                      inlay_optimize_args *args, inlay_diag *diag);
/* Returns the name of the optimiser pass at position index, in execution order (static text), and in *out_level the
 * lowest level that includes it. NULL: index is past the last pass; *out_level is then unchanged. */
INLAY_API const char *inlay_optimize_pass(uint32_t index, uint32_t *out_level);

/* Arguments and results of inlay_extract(). They select the part of the model in exactly one of three ways: by names of
 * values (inputs, outputs), by node patterns (nodes, depth), or by stage number (part, part_count). Start from
 * INLAY_EXTRACT_ARGS_INIT. */
typedef struct inlay_extract_args {
    uint64_t struct_size;
    const char *out_path;       /* path of the model to write; required */
    const char *external_file;  /* file name, in the same folder, for large tensors; NULL = one file */
    const char *const *inputs;  /* [input_count] values at which the part begins; none = the inputs of the model */
    const char *const *outputs; /* [output_count] values that the part computes; none = the outputs of the model */
    const char *const *nodes;   /* [node_count] globs on node names, or op:GLOB on operators */
    uint32_t input_count, output_count, node_count;
    uint32_t depth;                 /* with nodes: also their neighbours up to this many edges away */
    uint32_t part, part_count;      /* stage `part`, from 0, of part_count stages with about equal node counts */
    uint32_t nodes_kept, nodes_all; /* out: nodes of the part, and of the main graph */
} inlay_extract_args;
#define INLAY_EXTRACT_ARGS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(inlay_extract_args), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0                               \
    }

/* Writes a part of the main graph of the model at path as a separate model: nodes with their bodies, the functions that
 * they use, and the constants that they read. Inputs and outputs get the types that shape inference determines at the
 * cut. Running all stages in sequence gives the results of the whole model. options may be NULL.
 * INLAY_INVALID_ARGUMENT: an unknown name, an input on which the outputs do not depend, or a missing input. */
INLAY_API INLAY_NODISCARD inlay_status inlay_extract(const char *path, const inlay_options *options,
                                                     inlay_extract_args *args, inlay_diag *diag);

typedef struct inlay_context inlay_context;

/* Creates a context: the inputs, outputs and intermediate memory of one run at a time. The session must outlive it. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context,
                                                            inlay_diag *diag);
/* Waits for an asynchronous run in progress, then destroys the context and its outputs. NULL is a no-op. */
INLAY_API void inlay_context_destroy(inlay_context *context);

/* Binds an input, until another value is bound; the context takes a reference. NULL unbinds. An input of a fixed shape
 * that no operator reads need not be bound.
 *
 * A device with unified memory (inlay_device.unified) reads the value in place if its provider can import host memory
 * and the value starts at the alignment that the device requires; 4096 bytes suffice for every device. Otherwise each
 * graph that reads the value on the device (the main graph or a body) copies it once. Values that are already in the
 * device's memory (inlay_session_value_create_on(), results of runs that were kept there) are not copied to the device.
 * A device tensor that the host also reads is copied once.
 *     INLAY_INVALID_ARGUMENT  index is past the last input, or value is on a device that the session does not use
 *     INLAY_SHAPE_MISMATCH    value has another kind, type or shape than the model declares (an optional input also
 *                             accepts its contents directly) */
INLAY_API inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value,
                                               inlay_diag *diag);
/* Binds a value to output `index`, until another value is bound, so that runs write into it; the context takes a
 * reference. It must be a tensor of the output's element type. Only the size of the tensor's memory matters, not its
 * shape: a run gives the tensor the shape of the result. If the memory of a host tensor is smaller than the result, a
 * run leaves the value unchanged and allocates memory. A device tensor that is too small, or that is also an input,
 * fails the run with INLAY_SHAPE_MISMATCH. A run writes into the value without a copy if the plan permits and the
 * memory is not also an input; a device with unified memory does so in a host tensor under the condition stated at
 * inlay_context_set_input(). Otherwise the result is copied once. After the run, inlay_context_output() returns this
 * value if the run used it; with INLAY_RUN_OUTPUTS_BOUND a run fails if it cannot use the value. NULL: the library
 * allocates the memory. The statuses are those of inlay_context_set_input(); a list or a tensor of strings is
 * INLAY_SHAPE_MISMATCH, too.
 */
INLAY_API inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value,
                                                inlay_diag *diag);

/* Options of one run. Start from INLAY_RUN_OPTIONS_INIT. An unknown bit in the low half of flags is
 * INLAY_INVALID_ARGUMENT, in the high half it is ignored. An unknown number of priority or power is
 * INLAY_INVALID_ARGUMENT. */
typedef struct inlay_run_options {
    uint64_t struct_size;
    const uint32_t *cancel; /* another thread stores 1 here (atomically) to stop the run; NULL = not cancellable */
    uint64_t timeout_ns;    /* time limit of the run, from its start; 0 = no limit */
    uint32_t flags;         /* INLAY_RUN_* */
    uint32_t priority;      /* INLAY_PRIORITY_*, a hint for the devices of the run; NORMAL = that of option priority */
    /* threads of this run, at most the session's intra_threads; 0 = intra_threads. Concurrent runs wait less for each
     * other if each has few threads. The results have the same bits for every number of threads */
    uint32_t max_threads;
    uint32_t power; /* INLAY_POWER_*, a hint for the devices of the run; DEFAULT = that of option power */
    /* Since 1.1. The time of CLOCK_MONOTONIC at which the result is needed; 0 = any. In a session with option ladder
     * the run uses the most exact variant that is expected to end by then, or else the quickest one;
     * inlay_context_variant() tells which. A late run is not stopped: that is timeout_ns */
    uint64_t deadline_ns;
} inlay_run_options;
#define INLAY_RUN_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(inlay_run_options), NULL, 0, 0, 0, 0, 0, 0                                                              \
    }
enum {
    /* The run fails with INLAY_SHAPE_MISMATCH if an output does not fit the value of inlay_context_set_output(); the
     * message names the output and the required size. */
    INLAY_RUN_OUTPUTS_BOUND = 1u << 0
};

/* Runs the model on the bound inputs. The first run at new input shapes builds a plan; later runs at the same shapes do
 * not allocate memory. options may be NULL. After a failure the outputs are invalid, and the context can run again.
 *     INLAY_INVALID_ARGUMENT   an input is not bound, or options are invalid
 *     INLAY_SHAPE_MISMATCH     input shapes that the model cannot process; see also INLAY_RUN_OUTPUTS_BOUND
 *     INLAY_CANCELLED, INLAY_DEADLINE_EXCEEDED   options->cancel, options->timeout_ns
 *     INLAY_LIMIT_EXCEEDED     over option memory_budget, memory_limit or max_run_bytes
 *     INLAY_DEVICE_LOST        the device failed; create the session again (see also option device_failure) */
INLAY_API inlay_status inlay_context_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);

/* on = 1: times the following runs of the context step by step, for inlay_explain_options.measured and
 * inlay_context_record(). Only the latest 64 runs are kept. Such runs are slightly slower because they wait for devices
 * after each step. on = 0: stops measuring. Both discard an earlier measurement and an earlier profile, so use the
 * times first. */
INLAY_API inlay_status inlay_context_measure(inlay_context *context, uint32_t on, inlay_diag *diag);

/* Receives the end of an asynchronous run, on the thread that ran it. The function must not call functions of the
 * context, and must return soon. */
typedef void (*inlay_done_fn)(void *user, inlay_status status);
/* Starts a run and returns. The run executes on a thread of the context, which the first such call creates. When it
 * ends, that thread calls done (may be NULL) with the status that inlay_context_run() would have returned. *options is
 * copied. Until inlay_context_wait() has returned the run's status, the variable that options->cancel points to must
 * stay valid, and only three functions of the context may be called: inlay_context_wait(), inlay_context_destroy(), and
 * this one, which returns INLAY_BUSY while the run is in progress. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_run_async(inlay_context *context, const inlay_run_options *options,
                                                               inlay_done_fn done, void *user, inlay_diag *diag);
/* Waits for the asynchronous run for at most timeout_ns (UINT64_MAX: without limit; 0: does not wait), and returns its
 * status with its diag. INLAY_BUSY: the run has not ended. Without a run in progress it returns the status of the last
 * one; INLAY_OK if there was none. */
INLAY_API inlay_status inlay_context_wait(inlay_context *context, uint64_t timeout_ns, inlay_diag *diag);

/* on = 1: profiles the following runs of the context step by step, up to max_events steps (0 = 262144). on = 0: stops
 * profiling. Both discard an earlier profile and an earlier measurement, so write the profile first. Profiled runs wait
 * for devices after each step, as measured runs do. */
INLAY_API inlay_status inlay_context_profile(inlay_context *context, uint32_t on, uint32_t max_events,
                                             inlay_diag *diag);
/* Format of a profile, and the peak rates of the machine, which are the limits of rooflines. Zero it, then set
 * struct_size. A rate of 0 is unknown: rows that need it have no roofline. */
typedef struct inlay_profile_options {
    uint64_t struct_size;
    /* "text" (NULL), "json" (`inlay profile --from FILE --html PAGE` converts it to a page), "trace" (Chrome trace
     * events, for Perfetto), "onnxruntime" (the events of ONNX Runtime's profiles, for tools that read these) or
     * "stacks" (folded stacks in nanoseconds) */
    const char *format;
    double peak_flops_per_s;       /* of float and double */
    double peak_bytes_per_s;       /* of memory */
    double peak_integer_ops_per_s; /* of 8-bit integers */
    double peak_half_flops_per_s;  /* of float16 and bfloat16 */
} inlay_profile_options;
/* Writes the profile. options may be NULL: as text, without rooflines. Not while the context runs.
 * INLAY_INVALID_ARGUMENT: the format is unknown, a rate is negative or not finite, or the context is not profiled.
 * INLAY_UNSUPPORTED: format "html". */
INLAY_API inlay_status inlay_context_profile_write(const inlay_context *context, const inlay_profile_options *options,
                                                   inlay_write_fn write, void *user, inlay_diag *diag);

/* A step of a profiled run, or a kernel within a step. The texts are valid during the call that passes them. */
typedef struct inlay_profile_event {
    uint64_t struct_size;
    const char *name;     /* name of the node; of several nodes "first .. last (N nodes)"; of a copy "copy of VALUE" */
    const char *op_type;  /* the operator; "Conv+Relu" for several; the name of a named kernel; "Copy" */
    const char *provider; /* the provider that runs the step; "host"; "copy" */
    uint64_t begin_ns;    /* on CLOCK_MONOTONIC */
    uint64_t end_ns;
    uint32_t run;   /* number of the profiled run, from 0 */
    uint32_t depth; /* 0: a step of the main graph. 1 and more: part of the next event that has a lower depth */
} inlay_profile_event;
/* Since 1.1. Calls event for each step of the profiled runs, and for each kernel that a provider reports, in the order
 * in which they end, for programs that have a format or clock of their own. Not while the context runs.
 * INLAY_INVALID_ARGUMENT: the context is not profiled. */
INLAY_API inlay_status inlay_context_profile_events(const inlay_context *context,
                                                    void (*event)(void *user, const inlay_profile_event *event),
                                                    void *user, inlay_diag *diag);

/* Returns output `index` of the last run, borrowed until the next run or until the context is destroyed; NULL: there is
 * no such output, there was no run or the last one failed, or the output is a state that is kept in place (see
 * "states"). To keep it longer, take a reference (inlay_value_ref); the next run then uses other memory, except for a
 * value of inlay_context_set_output(). */
INLAY_API inlay_value *inlay_context_output(inlay_context *context, uint32_t index);

/* Like inlay_session_trim(), for this context only, including the outputs of its last run: inlay_context_output()
 * returns NULL until the next run. To keep an output, take a reference. Bound values and states stay. The session keeps
 * its prepared sizes. INLAY_BUSY: an asynchronous run is pending, or the context measures or profiles its runs. */
INLAY_API inlay_status inlay_context_trim(inlay_context *context, inlay_diag *diag);

/* Properties of the context's current plan. */
typedef struct inlay_plan_info {
    uint64_t struct_size;
    uint64_t slab_bytes;        /* memory for intermediate values and workspace, in all domains together */
    uint64_t lower_bound_bytes; /* the most bytes in use at any step: no plan needs less */
    uint64_t constant_bytes;    /* constants of the main graph, mapped or copied */
    uint32_t step_count;
    uint32_t dynamic_step_count; /* steps whose shapes depend on data */
    /* expected time of the last run at its sizes, by the costs that the session knows; at least the time to read
     * weights that are not kept in memory (memory_limit), at the rate of earlier runs */
    double predicted_ns;
} inlay_plan_info;
/* Fills *out_info (set struct_size). INLAY_NOT_FOUND: the context has not run yet, or not since it was trimmed. Not
 * while the context runs. */
INLAY_API inlay_status inlay_context_plan(const inlay_context *context, inlay_plan_info *out_info);
/* Since 1.1. Returns the name of the variant of a model package that the last run used, borrowed until the session is
 * destroyed; NULL: the model is not of a package. *out_error (may be NULL): the error that the package states for it;
 * negative: none. Not while the context runs. */
INLAY_API const char *inlay_context_variant(const inlay_context *context, double *out_error);

/* States.
 *
 * Some models have inputs whose values are outputs of the previous run, such as the key-value cache of a language model
 * or the state of a recurrent layer. A context can keep these states between runs:
 *
 *     inlay_context_keep_states(context, 2048, &diag);      // initial capacity: 2048 tokens
 *     ...bind tokens, mask and positions; run; choose the next token; and again...
 *     inlay_context_state_rewind(context, length, &diag);   // drop the last tokens
 *
 * The inputs that are states are left unbound. A state to which a provider appends in place is stored in a buffer with
 * spare capacity: a run writes only the new rows and copies nothing, and inlay_context_output() returns NULL for that
 * output. The results are identical, bit for bit, to those of a caller that passes outputs on as inputs. Option `state`
 * names the inputs that are states; the names that common exporters use are recognised automatically. */

/* A state of the model. */
typedef struct inlay_state_info {
    uint64_t struct_size;
    uint32_t input, output; /* index of the input, and of the output that becomes this input in the next run */
    uint32_t axis; /* axis along which the output is longer than the input; INLAY_NONE: the output replaces the input */
    uint32_t in_place; /* 1: rows are appended in place if sizes are known before the run */
} inlay_state_info;
INLAY_API uint32_t inlay_session_state_count(const inlay_session *session);
/* Fills *out_info (set struct_size). INLAY_NOT_FOUND: index is past the last state. */
INLAY_API inlay_status inlay_session_state(const inlay_session *session, uint32_t index, inlay_state_info *out_info);

/* Makes the context keep all states. At first, a state that grows has no rows, and every other state is all zeros.
 * States kept before are dropped. rows is the initial capacity along axes that grow; it doubles when more is needed. If
 * an input of a state is bound, a run reads the bound value and leaves the state unchanged. INLAY_NOT_FOUND: the model
 * has no states. INLAY_LIMIT_EXCEEDED: rows is above INT32_MAX. The other functions below that return a status return
 * INLAY_INVALID_ARGUMENT if the context keeps no states, or if index is past the last state. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_keep_states(inlay_context *context, uint64_t rows,
                                                                 inlay_diag *diag);
/* Returns the number of rows of the longest state that grows; 0 before the first run, and if no states are kept. */
INLAY_API int64_t inlay_context_state_length(const inlay_context *context);
/* Drops all rows after the first `length`; 0: all rows. INLAY_INVALID_ARGUMENT: length is negative or above
 * inlay_context_state_length(). INLAY_UNSUPPORTED: length is not 0, and a state does not grow. */
INLAY_API inlay_status inlay_context_state_rewind(inlay_context *context, int64_t length, inlay_diag *diag);
/* Copies the states of `from`, another context of the same session, into this context. Both contexts must keep states,
 * and `from` must not run meanwhile. */
INLAY_API inlay_status inlay_context_state_fork(inlay_context *context, const inlay_context *from, inlay_diag *diag);
/* Returns a copy of the state at position index, a new value, dense row-major in host memory. INLAY_NOT_FOUND: the
 * state has no value, because no run has used it since it was created or reset. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_state_get(const inlay_context *context, uint32_t index,
                                                               inlay_value **out_value, inlay_diag *diag);
/* Sets the state at position index to a copy of value. INLAY_SHAPE_MISMATCH: value has another type or shape than the
 * input. INLAY_UNSUPPORTED: value is in device memory. */
INLAY_API inlay_status inlay_context_state_set(inlay_context *context, uint32_t index, const inlay_value *value,
                                               inlay_diag *diag);

/* Rows (since 1.1).
 *
 * Texts of different lengths can be rows of the states of one context, so that one run makes the next token of each.
 * Between two runs rows join, leave, are copied and are rewound:
 *
 *     inlay_session_rows(session, NULL, &info, &diag);          // once: which padding the model needs
 *     inlay_context_keep_rows(reader, &info, 2048, &diag);
 *     inlay_context_set_rows(reader, &empty, 1, &diag);         // empty = { 0 }: a text without tokens
 *     inlay_context_set_tokens(reader, prompt, count, &diag);
 *     inlay_context_run(reader, NULL, &diag);                   // a prompt is read alone, at once or in parts
 *     ...
 *     inlay_context_set_rows(main, rows, row_count, &diag);     // rows of main that stay, and those of the reader
 *     inlay_context_set_tokens(main, next, 1, &diag);           // one more token of each
 *     inlay_context_run(main, NULL, &diag);                     // logits [row_count, 1, vocabulary]
 *
 * The results of a row are those of a context that keeps only this row, up to the rounding of its kernels; with option
 * `reproducible` bit for bit, also if a prompt is read in parts. Padding before a row changes the order in which its
 * sums are rounded, so a session with this option reports INLAY_ROWS_ALONE for a model that needs INLAY_ROWS_LEFT. To
 * generate several texts, use several contexts with one row each in that case. */

/* The padding of rows that are shorter than the longest one. */
typedef enum inlay_row_layout {
    INLAY_ROWS_ALONE = 0, /* the model does not tell rows of different lengths apart: a context keeps one row */
    /* padding first: the tokens of all rows are appended at the same position, and the mask hides the padding */
    INLAY_ROWS_LEFT = 1,
    INLAY_ROWS_RIGHT = 2 /* padding last: tokens are appended to a row at its length, which is the sum of its mask */
} inlay_row_layout;

/* What a decoder needs for rows. */
typedef struct inlay_rows_info {
    uint64_t struct_size;
    uint64_t token_bytes; /* bytes of the states of one token */
    uint64_t fixed_bytes; /* bytes of a row's states that do not grow */
    uint32_t layout;      /* INLAY_ROWS_* */
    uint32_t in_parts;    /* 1: several runs may read a prompt in parts; the result is that of one run */
    uint32_t tokens;      /* input 'input_ids', int64 [rows, tokens] */
    uint32_t mask;        /* input 'attention_mask', int64 [rows, tokens so far]; INLAY_NONE: none */
    uint32_t positions;   /* input 'position_ids', int64 [rows, tokens]; INLAY_NONE: none */
    uint32_t logits;      /* output 'logits' */
} inlay_rows_info;
/* Finds the layout by comparing short runs of several rows with runs of each row alone, which works for every form of
 * attention and for recurrent layers. options (may be NULL) apply to these runs. Fills *out_info (set struct_size).
 * INLAY_NOT_FOUND: the model has no states. INLAY_UNSUPPORTED: it has no input 'input_ids' or no output 'logits', or a
 * required input that is neither one of the inputs above nor a state; the message names it. */
INLAY_API INLAY_NODISCARD inlay_status inlay_session_rows(inlay_session *session, const inlay_run_options *options,
                                                          inlay_rows_info *out_info, inlay_diag *diag);

/* Makes the context keep all states as rows, at first none. States kept before are dropped. tokens is the initial
 * capacity of a row; it grows. *info was filled for the context's session. From now on inlay_context_set_tokens() binds
 * the inputs of *info. inlay_context_state_rewind(), inlay_context_state_fork() and inlay_context_state_set() then
 * return INLAY_INVALID_ARGUMENT. INLAY_LIMIT_EXCEEDED: tokens is above INT32_MAX. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_keep_rows(inlay_context *context, const inlay_rows_info *info,
                                                               uint64_t tokens, inlay_diag *diag);

/* A row of a context, or part of it. */
typedef struct inlay_row {
    const inlay_context *context; /* of the same session, and keeping rows; NULL: a row without tokens */
    /* number of tokens to take from the start of the row, at most all of them; 0 for a row without tokens */
    int64_t length;
    uint32_t row;      /* position of the row in that context */
    uint32_t reserved; /* 0 */
} inlay_row;
/* Replaces the rows of the context by copies of `rows`: a row that is not listed leaves, a row of another context
 * joins, a row that is listed twice is forked, and a row with a smaller length is rewound. rows [count] may be NULL if
 * count is 0. None of these contexts may be running; the other contexts do not change. A row of this context that keeps
 * its position is not copied if no other row changes; with INLAY_ROWS_RIGHT also if rows leave, and if rows join behind
 * it while there is memory for them. Tokens that were bound for the next run are dropped. After a failure the rows are
 * unchanged.
 *     INLAY_INVALID_ARGUMENT   a context keeps no rows, is of another session, has no row of this index, or has fewer
 *                              tokens in the row
 *     INLAY_UNSUPPORTED        more than one row with INLAY_ROWS_ALONE; a row with states that do not grow, such as
 *                              those of recurrent layers, is rewound, but not to 0; or the states of a row have other
 *                              sizes than its tokens need, as in a model that drops old tokens, and cannot be copied */
INLAY_API inlay_status inlay_context_set_rows(inlay_context *context, const inlay_row *rows, uint32_t count,
                                              inlay_diag *diag);
/* The number of rows; 0 if the context keeps none. */
INLAY_API uint32_t inlay_context_row_count(const inlay_context *context);
/* The number of tokens of a row; 0: there is no such row. */
INLAY_API int64_t inlay_context_row_length(const inlay_context *context, uint32_t row);
/* Binds `count` further tokens of each row, tokens [rows, count], which are copied, with their mask and positions. The
 * next run adds them to the rows if it succeeds, and unbinds them in any case. A run returns INLAY_INVALID_ARGUMENT if
 * it was not preceded by this call, or if an input that is a state is bound. This function returns
 * INLAY_INVALID_ARGUMENT if there are no rows or count is not positive. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_set_tokens(inlay_context *context, const int64_t *tokens,
                                                                int64_t count, inlay_diag *diag);

/* Costs.
 *
 * The runtime assigns nodes to providers by cost. The initial costs come from the providers' models; a machine profile
 * corrects them, and measurements of a model's own layers replace them. Profile and measurements are stored in the
 * cache folder (option cache_dir), from which every later session loads them. */

/* Parameters of inlay_calibrate(). Set struct_size; any other field that is zero has its default. */
typedef struct inlay_calibrate_options {
    uint64_t struct_size;
    const uint32_t *threads; /* [thread_count] thread counts to measure; none: 1, and all threads of the process */
    uint32_t thread_count;
    uint32_t quick;  /* 1: fewer runs of each kernel */
    double budget_s; /* time limit in seconds; 0: 60 for each provider and thread count, 15 if quick */
} inlay_calibrate_options;
#define INLAY_CALIBRATE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(inlay_calibrate_options), NULL, 0, 0, 0                                                                 \
    }

/* Result of inlay_calibrate(). Set struct_size; otherwise it is left unchanged. */
typedef struct inlay_calibrate_result {
    uint64_t struct_size;
    uint32_t provider_count;
    uint32_t kernel_count; /* measured kernels, over all providers and thread counts */
    uint32_t line_count;   /* kernel classes with a fitted time model */
    uint32_t link_count;   /* measured copy links to and from device memory */
    double median_error;   /* error of the models as a factor, for instance 1.08: the median of the classes' medians */
    double seconds;        /* duration of the call */
    char path[1024];       /* path of the written file */
} inlay_calibrate_result;

/* Measures operators on every provider and copies to and from every device, and writes the machine profile. Of options,
 * only those of plugins and providers, profile, cache_dir, the log and the progress function apply. It takes about half
 * a minute for each provider and thread count, and at most budget_s, also on a busy machine: if time is short, kernels
 * are timed less often, and then some of each family are skipped. INLAY_CANCELLED: the progress function returned
 * non-zero; the previous profile is unchanged. INLAY_INVALID_ARGUMENT: a thread count is out of range. INLAY_IO_ERROR:
 * there is no folder to write to. options, what and out_result may be NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_calibrate(const inlay_options *options,
                                                       const inlay_calibrate_options *what,
                                                       inlay_calibrate_result *out_result, inlay_diag *diag);

/* A node that, according to the measurements, another provider should run. Texts are borrowed for the callback. */
typedef struct inlay_tune_change {
    uint64_t struct_size;
    const char *node, *op_type;
    const char *from, *to; /* providers */
    /* measured times of the node on `from` and on `to`; if `to` runs several nodes as a group, to_ns is the time of the
     * group */
    double from_ns, to_ns;
} inlay_tune_change;
typedef void (*inlay_tune_change_fn)(void *user, const inlay_tune_change *change);

/* Measured runs of the model without some of its providers. Texts are borrowed for the callback. */
typedef struct inlay_tune_run {
    uint64_t struct_size;
    const char *left_out; /* names of providers, separated by spaces, which ran only what no other provider offers */
    /* the provider that ran all that it offers, while `reference` ran the rest; NULL: no such provider */
    const char *alone;
    double ns;          /* median time of a run without these providers */
    double assigned_ns; /* median time of a run of the current assignment; the runs of both alternate */
    uint32_t rounds;    /* number of alternating runs; a result from fewer than 3 is not used */
    uint32_t chosen;    /* 1: later sessions of the model leave these providers out, because runs are faster */
} inlay_tune_run;
typedef void (*inlay_tune_run_fn)(void *user, const inlay_tune_run *run);

/* Parameters of inlay_tune(). Set struct_size; any other field that is zero has its default. */
typedef struct inlay_tune_options {
    uint64_t struct_size;
    /* [input_count] values with the shapes to tune for; NULL, or a NULL entry: the sizes that option dim states */
    inlay_value *const *inputs;
    uint32_t input_count;
    uint32_t runs; /* runs of each kernel at most; 0 = as the budget permits */
    /* seconds for the measurements of kernels, at least one of which is measured; whole runs get half as many seconds
     * more; 0 = 60 */
    double budget_s;
    /* may be NULL; a result other than 0 ends the call, which keeps its measurements so far */
    inlay_progress_fn progress;
    void *progress_user;         /* first argument of progress */
    inlay_tune_change_fn change; /* called for each change before inlay_tune returns; may be NULL */
    void *change_user;           /* first argument of change */
    inlay_tune_run_fn run;       /* called for each compared assignment before inlay_tune returns; may be NULL */
    void *run_user;              /* first argument of run */
} inlay_tune_options;
#define INLAY_TUNE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(inlay_tune_options), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL                                  \
    }

/* Result of inlay_tune(). Set struct_size; otherwise it is left unchanged. Costs are those of one run of the model,
 * without the bodies of loops and branches. */
typedef struct inlay_tune_result {
    uint64_t struct_size;
    uint32_t offer_count;    /* offers of providers in all graphs of the model */
    uint32_t kernel_count;   /* distinct kernels among the plausible offers */
    uint32_t known_count;    /* how many of the kernels earlier calls have measured */
    uint32_t measured_count; /* how many of the kernels this call has measured */
    uint32_t failed_count;   /* how many of the kernels could not run on random inputs */
    uint32_t pruned_count;   /* offers skipped because their cost is far above the best one for their nodes */
    uint32_t changed_count;  /* nodes that another provider should run */
    uint32_t stopped;        /* 1: the progress function or the time limit ended the measurements early */
    double before_ns;        /* predicted time of the session's assignment with the previous costs */
    double measured_ns;      /* predicted time of the same assignment with the new costs */
    double after_ns;         /* predicted time of the best assignment with the new costs */
    double seconds;          /* duration of the call */
    /* measured time of the model with the old and the new assignment, if the new costs change assignment or kernels;
     * 0: not run. The measurements are kept only if the new assignment is not slower */
    double run_before_ns;
    double run_after_ns;
    uint32_t dropped; /* 1: the measurements were discarded because every new assignment was slower than the old one */
    /* providers that later sessions of the model do not use, because runs of the model are faster without them */
    uint32_t left_out_count;
} inlay_tune_result;

/* Measures the compiled kernels of all plausible offers for the session's model and stores the results in the cache
 * folder. Later sessions of this model, and of other models with the same layers, use them. Then times whole runs
 * without each provider in use, and with each one alone: if such a run is faster, later sessions of this model with the
 * same sizes, providers and threads do not use the providers that this run did without. The session itself does not
 * change. how and out_result may be NULL. */
INLAY_API INLAY_NODISCARD inlay_status inlay_tune(inlay_session *session, const inlay_tune_options *how,
                                                  inlay_tune_result *out_result, inlay_diag *diag);

/* Stores the times of this context's measured runs, kernel by kernel, where inlay_tune() stores its measurements.
 * INLAY_INVALID_ARGUMENT: no run was measured, see inlay_context_measure(). Only the chosen kernels are included, at
 * the sizes of the last run. *out_count (may be NULL) is the number of distinct kernels. */
INLAY_API INLAY_NODISCARD inlay_status inlay_context_record(inlay_context *context, uint32_t *out_count,
                                                            inlay_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
