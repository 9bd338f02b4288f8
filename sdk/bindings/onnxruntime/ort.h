/* ort.h - declarations shared by the files of this library: the objects behind the handles, and error reporting.
 *
 * Each entry of the table is a function ort_<Name> in one of the files; api.def declares them. A program creates and
 * releases each handle with a pair of entries. OrtValue is reference-counted, because lists hold values that the
 * program may release. */
#ifndef ORT_ORT_H
#define ORT_ORT_H
#include "inlay/inlay.h"
#include "types.h"
#include <pthread.h>

#define ENTRY_WORKS(returns, name, params) returns ort_##name params;
#define ENTRY_KEPT(returns, name, params) returns ort_##name params;
#define ENTRY_ACCEPTED(returns, name, params)
#define ENTRY_NOTHING(returns, name, params)
#define ENTRY_NOT_BUILT(returns, name, params)
#define ENTRY_REFUSED(returns, name, params)
#define ENTRY(state, returns, name, params) ENTRY_##state(returns, name, params)
#include "api.def"
#undef ENTRY
#undef ENTRY_WORKS
#undef ENTRY_KEPT
#undef ENTRY_ACCEPTED
#undef ENTRY_NOTHING
#undef ENTRY_NOT_BUILT
#undef ENTRY_REFUSED

/* The functions of the tables for building and compiling models. */
#define ENTRY(returns, name, params) returns ort_##name params;
#include "editor.def"
#include "compile.def"
#undef ENTRY

const OrtApi *ort_table(void);
const OrtApiBase *ort_base(void);

struct OrtStatus {
    OrtErrorCode code;
    char text[];
};
INLAY_PRINTF(2, 3) __attribute__((returns_nonnull)) OrtStatus *ort_fail(OrtErrorCode code, const char *format, ...);
__attribute__((returns_nonnull)) OrtStatus *ort_no_memory(void);
/* Makes room for one more item in a list of `count` items, which is NULL or was allocated with malloc. false: no
 * memory. */
bool ort_grow(void *list_address, size_t count, size_t item_bytes);
#define ORT_GROW(list, count) ort_grow(&(list), count, sizeof *(list))
/* Converts the result of a call of inlay.h; NULL for INLAY_OK. */
OrtStatus *ort_from(inlay_status status, const inlay_diag *diag);

/* Returns an error from the function if a required pointer is NULL. */
#define ORT_NEED(pointer)                                                                                              \
    do {                                                                                                               \
        if ((pointer) == NULL)                                                                                         \
            return ort_fail(ORT_INVALID_ARGUMENT, "%s: " #pointer " is NULL", __func__ + 4);                           \
    } while (0)
/* Defines function(object, out), which sets *out to a value of the object. */
#define ORT_GETTER(function, object_type, object, type, out, value)                                                    \
    OrtStatus *function(object_type object, type *out)                                                                 \
    {                                                                                                                  \
        ORT_NEED(object);                                                                                              \
        ORT_NEED(out);                                                                                                 \
        *out = (value);                                                                                                \
        return NULL;                                                                                                   \
    }
struct OrtKeyValuePairs {
    size_t count;
    char **keys, **values;
};
/* Adds a pair or replaces its value. false: no memory. */
bool ort_pairs_set(OrtKeyValuePairs *pairs, const char *key, const char *value);
const char *ort_pairs_get(const OrtKeyValuePairs *pairs, const char *key); /* NULL: none */
bool ort_pairs_copy(OrtKeyValuePairs *to, const OrtKeyValuePairs *from);
void ort_pairs_clear(OrtKeyValuePairs *pairs);

/* Returns a copy of text in memory of the caller's allocator. */
OrtStatus *ort_give_text(OrtAllocator *allocator, const char *text, char **out);
/* For entries that fill a buffer of the caller: sets *size to the size including NUL; out NULL only requests the size.
 */
OrtStatus *ort_fill_text(const char *text, char *out, size_t *size);
/* Replaces *text by a copy. */
bool ort_set_text(char **text, const char *value);

struct OrtLogger {
    OrtLoggingFunction fn; /* NULL: standard error */
    void *param;
    OrtLoggingLevel level; /* messages below are not logged */
    char id[64];
};
struct OrtEnv {
    uint32_t references; /* 0: not created yet */
    OrtLogger logger;
    int threads;              /* 0: all */
    OrtKeyValuePairs entries; /* for libraries of execution providers */
};
void ort_log(const OrtLogger *logger, OrtLoggingLevel level, const char *text);
/* Logs once, with the environment's logger, that an accepted entry has no counterpart. */
void ort_log_accepted(const char *name);
const OrtLogger *ort_default_logger(void);
/* Number of threads of sessions that do not set one; 0: all. */
int ort_env_threads(void);
int ort_threading_options_threads(const OrtThreadingOptions *options);

struct OrtHardwareDevice {
    OrtHardwareDeviceType type;
    uint32_t vendor_id, device_id; /* as on the PCI bus */
    const char *vendor;
    OrtKeyValuePairs metadata;
};
const OrtHardwareDevice *ort_cpu(void);

/* A device, for one execution provider. */
struct OrtEpDevice {
    const OrtHardwareDevice *device;
    const char *name, *vendor; /* of the execution provider */
    OrtKeyValuePairs metadata, options;
    const OrtMemoryInfo *memory;        /* of the device; NULL: none */
    const OrtMemoryInfo *shared_memory; /* memory of the device that the host can access; NULL: none */
    struct OrtEpFactory *factory;       /* of a plug-in execution provider; otherwise NULL */
};
const OrtEpDevice *ort_cpu_device(void);
/* The provider that opens libraries of execution providers, each as ORT_EP_PROVIDER "#" and a word. */
#define ORT_EP_PROVIDER "ort_ep"
/* Devices of one provider, in its option device: "0,2". */
enum { ORT_EP_MOST_DEVICES = 16 };
/* Appends the device that the policy or the delegate of `options` chooses to *chosen, which is zeroed; none for the
 * CPU. The caller clears its providers and settings. */
OrtStatus *ort_libraries_choose(const OrtSessionOptions *options, OrtSessionOptions *chosen);
/* Forgets all registered libraries of execution providers; their devices are freed. */
void ort_libraries_release(void);

struct OrtMemoryInfo {
    char name[64];
    OrtAllocatorType type;
    int id;
    OrtMemType mem_type;
    OrtMemoryInfoDeviceType device_type;
    OrtDeviceMemoryType device_memory;
    uint32_t vendor;
    size_t alignment;
};
extern const OrtMemoryInfo ort_cpu_memory; /* of the default allocator and of outputs */
OrtAllocator *ort_allocator(void);
/* The contents of a regular file, in memory from malloc. */
OrtStatus *ort_read_file(const char *path, void **out_data, size_t *out_bytes);

inlay_dtype ort_dtype(ONNXTensorElementDataType type); /* INLAY_UNDEFINED: no counterpart */
ONNXTensorElementDataType ort_type_of(inlay_dtype dtype);
ONNXType ort_kind_of(uint32_t inlay_kind);
const char *ort_type_text(inlay_dtype dtype); /* "tensor(float)" */

enum { ORT_OWN_DIMS = 8 };
struct OrtTensorTypeAndShapeInfo {
    ONNXTensorElementDataType type;
    bool has_shape;
    size_t rank;
    int64_t *dims; /* [rank]; -1: unknown; own_dims if they fit */
    char **names;  /* [rank]; NULL: none has a name */
    int64_t own_dims[ORT_OWN_DIMS];
};
/* The name of a dimension; "": none. */
const char *ort_shape_name(const OrtTensorTypeAndShapeInfo *info, size_t dimension);
struct OrtMapTypeInfo {
    ONNXTensorElementDataType key;
    OrtTypeInfo *value;
};
struct OrtSequenceTypeInfo {
    OrtTypeInfo *element;
};
struct OrtOptionalTypeInfo {
    OrtTypeInfo *contained;
};
struct OrtTypeInfo {
    ONNXType type;
    OrtTensorTypeAndShapeInfo *tensor; /* of tensors and sparse tensors */
    OrtMapTypeInfo *map;
    OrtSequenceTypeInfo *sequence;
    OrtOptionalTypeInfo *optional;
};
/* names may be NULL. NULL: no memory. */
OrtTensorTypeAndShapeInfo *ort_shape_new(ONNXTensorElementDataType type, bool has_shape, size_t rank,
                                         const int64_t *dims, const char *const *names);
/* A type whose innermost tensor is shape. Takes ownership of shape, also on failure. NULL: no memory. */
OrtTypeInfo *ort_type_new(uint32_t inlay_kind, OrtTensorTypeAndShapeInfo *shape);
/* The type of an input or output of a session. NULL: no memory. */
OrtTypeInfo *ort_type_of_io(const inlay_io_info *io);
OrtTypeInfo *ort_type_copy(const OrtTypeInfo *type);

typedef struct ort_sparse ort_sparse;
typedef struct ort_string_object ort_string_object;
struct OrtValue {
    uint32_t references;
    ONNXType type;
    inlay_value *value;          /* the value that runs use; NULL: maps, sparse tensors, values without content */
    const OrtMemoryInfo *memory; /* borrowed, or &info */
    OrtMemoryInfo info;
    inlay_str *strings;         /* [count] of a writable string tensor, which owns the texts */
    ort_string_object *objects; /* [count] the texts as C++ objects, which then own them; NULL: never requested */
    OrtValue **items;           /* [item_count] of sequences and optionals created by programs; of maps: keys, values */
    size_t item_count;
    ort_sparse *sparse;
    inlay_dtype element; /* element type of an empty optional or sequence */
};
/* Takes ownership of a reference to value, also on failure. */
OrtStatus *ort_value_wrap(inlay_value *value, OrtValue **out);
OrtValue *ort_value_ref(OrtValue *value);
/* The memory of a struct, zeroed; _free: nothing refers to it. NULL: no memory. */
OrtValue *ort_value_alloc(void);
void ort_value_free(OrtValue *value);
OrtTensorTypeAndShapeInfo *ort_shape_alloc(void);
void ort_shape_free(OrtTensorTypeAndShapeInfo *info);
OrtStatus *ort_value_bare(ONNXType type, OrtValue **out);
/* A writable tensor of empty strings. */
OrtStatus *ort_strings_new(const int64_t *shape, size_t rank, OrtValue **out);
OrtStatus *ort_strings_set(OrtValue *value, size_t index, const char *text, size_t bytes);
void ort_strings_free(OrtValue *value);
/* The elements of a string tensor as objects of the type std::string, which the program may change. */
OrtStatus *ort_strings_objects(OrtValue *value, void **out);
/* Must be called before the strings of a value, or of its items, are read: the program may have changed the objects. */
void ort_strings_sync(const OrtValue *value);
OrtStatus *ort_check_shape(const int64_t *shape, size_t rank, size_t *out_count);
void ort_sparse_free(ort_sparse *sparse);
OrtTensorTypeAndShapeInfo *ort_sparse_shape(const OrtValue *value);
/* Converts to and from the dense form that runs use. The sparse form has one linear index per element. */
OrtStatus *ort_sparse_to_dense(const ort_sparse *sparse, inlay_value **out);
OrtStatus *ort_sparse_of_dense(const inlay_value *dense, OrtValue **out);

/* A tensor in place of the model's initializer of that name. */
typedef struct ort_initializer {
    char *name;
    OrtValue *value;
    bool external; /* the model's must have external data */
} ort_initializer;
/* A file of external data in memory of the program, which outlives the session's creation. */
typedef struct ort_file {
    char *name;
    const void *data; /* [bytes] */
    size_t bytes;
} ort_file;

struct OrtSessionOptions {
    OrtKeyValuePairs entries;     /* AddSessionConfigEntry */
    OrtKeyValuePairs dims;        /* AddFreeDimensionOverrideByName */
    OrtKeyValuePairs denotations; /* AddFreeDimensionOverride */
    OrtKeyValuePairs providers;   /* names from SessionOptionsAppendExecutionProvider; the values are not used */
    OrtKeyValuePairs settings;    /* "provider.option" */
    OrtExecutionProviderDevicePolicy policy;
    EpSelectionDelegate delegate; /* NULL: policy holds */
    void *delegate_state;
    int intra_threads;
    int level;
    ExecutionMode mode;
    int mem_pattern;
    int log_level; /* -1: the environment's */
    char log_id[64];
    char *optimized_path;
    char *profile_prefix; /* NULL: no profiling */
    OrtLoggingFunction log_fn;
    void *log_param;
    bool reproducible;
    uint32_t cancel_load;        /* atomic */
    OrtCustomOpDomain **domains; /* [domain_count] borrowed from the program */
    size_t domain_count;
    ort_initializer *initializers; /* [initializer_count] */
    ort_file *files;               /* [file_count] */
    size_t initializer_count, file_count;
};
/* The initializers and files of options (initializers.c). _copy sets those of `to`, which holds none yet; false: no
 * memory. */
bool ort_initializers_copy(OrtSessionOptions *to, const OrtSessionOptions *from);
void ort_initializers_release(OrtSessionOptions *options);
bool ort_initializers_given(const OrtSessionOptions *options); /* options may be NULL */
/* Adds to `to` the names and sizes of the dimensions of a model's inputs that have a given denotation. */
OrtStatus *ort_denoted_dims(const OrtKeyValuePairs *given, const void *data, size_t bytes, OrtKeyValuePairs *to);
/* Gives inlay the files in memory. *out_copy: their contents, to free after the session, also after an error. */
OrtStatus *ort_files_set(const OrtSessionOptions *options, inlay_options *to, void **out_copy);
/* Replaces the bytes of a model, allocated with malloc, by a copy with the given initializers. */
OrtStatus *ort_initializers_apply(const OrtSessionOptions *options, void **data, size_t *bytes);

struct OrtRunOptions {
    uint32_t terminate; /* atomic */
    int verbosity, severity;
    char *tag;
    char *profile_prefix;
    OrtKeyValuePairs entries;
    const OrtLoraAdapter **adapters; /* [adapter_count] borrowed from the program */
    size_t adapter_count;
};
/* A parameter of an adapter (lora.c): the value of the input of that name. */
typedef struct ort_parameter {
    char *name;
    OrtValue *value;
} ort_parameter;
const ort_parameter *ort_adapter_parameters(const OrtLoraAdapter *adapter, size_t *out_count);

typedef struct ort_custom ort_custom; /* custom operators of a session, see custom.h */
enum { ORT_MOST_IDLE = 64 };
struct OrtSession {
    inlay_session *session; /* NULL: the program edits the model (editor.c) */
    void *bytes;            /* [byte_count] the model, if it was loaded from memory or changed; malloc */
    size_t byte_count;
    void *files;  /* the contents of files in memory; NULL: none */
    char *folder; /* of the file that bytes were read from; NULL: none */
    char *path;   /* of the model's file if there are no bytes */
    OrtLogger logger;
    uint32_t *inputs;      /* [input_count] indices of the model's inputs without a default */
    uint32_t *overridable; /* [overridable_count] indices of the model's inputs with a default */
    uint32_t input_count, overridable_count, output_count;
    pthread_mutex_t lock; /* protects idle and serializes profiled runs */
    inlay_context *idle[ORT_MOST_IDLE];
    uint32_t idle_count;
    char *profile_prefix; /* NULL: not profiled */
    inlay_context *profiled;
    uint64_t profile_start_ns;
    ort_custom *custom;
    bool records_assignment;          /* config entry session.record_ep_graph_assignment_info */
    struct json_t *explanation;       /* NULL: the assignment was not read yet; guarded by lock, as are these two: */
    OrtEpAssignedSubgraph **assigned; /* [assigned_count] */
    size_t assigned_count;
    uint32_t users;                     /* atomic: calls in progress that use the session, and flags (release.c) */
    void (*clear)(OrtSession *session); /* frees all but the struct itself */
};
/* Programs with several threads may release a session while others use it: Java's close() does. Calls that run are
 * between these two. ort_session_enter fails if the session has been released. */
OrtStatus *ort_session_enter(OrtSession *session);
void ort_session_leave(OrtSession *session);
OrtStatus *ort_end_profiling(OrtSession *session, OrtAllocator *allocator, char **out);
inlay_io_info ort_input_info(const OrtSession *session, uint32_t model_index);
inlay_io_info ort_output_info(const OrtSession *session, uint32_t index);
/* Runs with inputs given by model index; fetches[k] receives the output wanted[k]. */
typedef struct ort_feed {
    uint32_t index;
    const OrtValue *value;
} ort_feed;
OrtStatus *ort_run(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds, size_t feed_count,
                   const uint32_t *wanted, OrtValue **fetches, size_t fetch_count);
/* Creates a session of a model that this library generated, in memory from malloc, which the session then owns; also on
 * failure. options may be NULL. */
OrtStatus *ort_session_from_bytes(const OrtSessionOptions *options, void *data, size_t bytes, OrtSession **out);
/* Optimises the model at path at that level, with the custom operators of options, and writes it to args->out_path. */
OrtStatus *ort_session_optimize(const OrtSessionOptions *options, int level, const char *path,
                                inlay_optimize_args *args);
/* Fails if the program still edits the session's model. */
OrtStatus *ort_session_ready(const OrtSession *session);
/* The bytes of the session's model: those that it keeps, or its file. data NULL: it cannot be read any more. */
typedef struct ort_model_bytes {
    const void *data; /* [bytes] */
    size_t bytes;
    void *mapped; /* or NULL */
} ort_model_bytes;
ort_model_bytes ort_model_map(const OrtSession *session);
void ort_model_unmap(ort_model_bytes *model);
/* Metadata whose texts are empty. */
OrtStatus *ort_metadata_empty(OrtModelMetadata **out);
/* Frees what assignment.c has read. */
void ort_assignment_free(OrtSession *session);

/* Writes the model as an ONNX file in memory from malloc. */
OrtStatus *ort_model_write(const OrtModel *model, void **out_data, size_t *out_bytes);
/* Writes the file `data` with the nodes, initializers and opsets of the model, and with its inputs and outputs if it
 * has some. */
OrtStatus *ort_model_extend(const OrtModel *model, const void *data, size_t bytes, void **out_data, size_t *out_bytes);
OrtStatus *ort_find_input(const OrtSession *session, const char *name, uint32_t *out);
OrtStatus *ort_find_output(const OrtSession *session, const char *name, uint32_t *out);
#endif
