/* test_ep.h - what the files of the library test_ep share. */
#ifndef TEST_EP_H
#define TEST_EP_H
#include "ep_types.h"

/* The members of OrtApi that the library uses: a table of pointers, whose order api.def has. */
struct api {
#define ENTRY(state, returns, name, params) returns(*name) params;
#include "api.def"
#undef ENTRY
};
#ifndef EP_NAME
#define EP_NAME "test_ep"
#endif
#define OWN_DOMAIN EP_NAME ".operators"
enum { FLOAT = 1, BOOL = 9, LONG_METADATA = 3000 /* bytes of a text */ };

extern const struct api *api;
extern const OrtEpApi *ep_api;

typedef struct test_ep {
    OrtEp base;
    bool drop, fail, uses_heap, makes_contexts;
    char fault[8]; /* the operator; "": none */
    size_t device_count;
} test_ep;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        OrtStatus *failed_ = (call);                                                                                   \
        if (failed_ != NULL)                                                                                           \
            return failed_;                                                                                            \
    } while (0)

/* A program of sums and products. */
enum { MOST_NODES = 64, MOST_VALUES = 256 };
typedef struct test_step {
    bool is_product;
    int a, b, result; /* values */
} test_step;
typedef struct test_program {
    OrtNodeComputeInfo base;
    const test_ep *ep;
    char name[128];
    test_step steps[MOST_NODES];
    int step_count, value_count;
    char *names[MOST_VALUES];
    int inputs[MOST_VALUES], outputs[MOST_VALUES]; /* values */
    int input_count, output_count;
    float *constants[MOST_VALUES]; /* copies; NULL: not a constant that is kept */
} test_program;
/* The value of that name, which is added if there is none. */
int value_of(test_program *program, const char *name);

/* Tensors that were copied to the memory of the device, and from there. The library exports
 *     test_ep_copies test_ep_take_copies(void);
 * which returns their numbers since its last call. */
typedef struct test_ep_copies {
    int to_device, to_host;
} test_ep_copies;

/* The shape of a float tensor, without heap use. */
OrtStatus *count_of(const OrtValue *value, size_t *out, int64_t dims[8], size_t *rank);
/* Fails if the device has memory of its own, and the tensor is not there. */
OrtStatus *check_memory(const OrtValue *value, const void *data, size_t count);
/* Fails if the kernel did not get the stream of the device, if there is one. */
OrtStatus *check_stream(OrtKernelContext *context);

OrtStatus *register_kernels(OrtKernelRegistry **out);
/* Fails if the runtime's schemas are not those of ONNX. */
OrtStatus *check_schemas(void);

extern OrtCustomOpDomain *own_domain; /* OWN_DOMAIN; NULL: not created */
OrtStatus *create_own_domain(void);
OrtStatus *count_domains(OrtEpFactory *self, size_t *out);
OrtStatus *get_domains(OrtEpFactory *self, OrtCustomOpDomain **out, size_t count);

OrtStatus *is_context(const OrtNode *node, bool *out);
OrtStatus *read_context(test_program *program, const OrtNode *node);
OrtStatus *make_context(const test_program *program, OrtNode **out);
const char *compatibility_info(OrtEp *self, const OrtGraph *graph);
OrtStatus *validate_info(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t device_count,
                         const char *info, OrtCompiledModelCompatibility *out);

OrtStatus *create_profiler(OrtEp *self, OrtEpProfilerImpl **out);
/* What each run of a kernel begins with: an event, if the run is profiled, and heap use, if an option asks for it. */
OrtStatus *note_run(const test_ep *ep);
#endif
