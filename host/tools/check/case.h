/* check/case.h - one operator with inputs and attributes, as a graph of one node that providers can be asked about.
 *
 *     op_case k;
 *     case_init(&k, "ai.onnx", "Relu", 14);
 *     case_input(&k, INLAY_FLOAT, 2, dims, false);
 *     case_fill(&k, seed);                         elements
 *     case_graph(&k, operators, &one, &diag);      bound, inferred, as a snapshot */
#ifndef CHECK_CASE_H
#define CHECK_CASE_H
#include "check/check.h"

enum { CASE_INPUTS = 24, CASE_ATTRS = 24, CASE_OUTPUTS = 16, CASE_RANK = 8 };

typedef struct case_tensor {
    inlay_dtype dtype; /* INLAY_UNDEFINED: omitted */
    uint32_t rank;
    int64_t dims[CASE_RANK];
    int64_t count;
    uint64_t bytes;
    void *data;          /* [count], the case's; NULL until filled */
    const double *given; /* [given_count] elements instead of random ones, or NULL */
    uint32_t given_count;
    int64_t low, high; /* of random integers */
    bool constant;
} case_tensor;

typedef struct op_case {
    char domain[64], op_type[64];
    int64_t opset; /* that the model imports of the domain */
    case_tensor in[CASE_INPUTS];
    uint32_t in_count, out_count;
    inlay_attr_info attrs[CASE_ATTRS];
    uint32_t attr_count;
    bool random;        /* two runs may differ */
    struct arena arena; /* of elements and attributes */
} op_case;

void case_init(op_case *entry, const char *domain, const char *op_type, int64_t opset);
void case_deinit(op_case *entry);
/* Adds an input; NULL: there are too many, or the rank is too high. dtype INLAY_UNDEFINED: omitted. */
case_tensor *case_input(op_case *entry, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant);
/* Adds an attribute; its name and lists are the caller's and must live as long. */
bool case_attr(op_case *entry, const inlay_attr_info *attr);
/* Makes elements for the inputs that have none. INLAY_LIMIT_EXCEEDED: too many. */
INLAY_NODISCARD inlay_status case_fill(op_case *entry, uint64_t seed);
/* "Conv-22 float[2,3,9,7] float[4,3,3,3]! pads=[1,1,1,1]", cut to fit; ! marks constants. */
char *case_text(const op_case *entry, char *text, size_t bytes);

/* The next number of a sequence; the state is the caller's. */
uint64_t case_random(uint64_t *state);
/* Random elements: floats in (-2, 2), integers in [low, high], words. */
void case_random_elements(inlay_dtype dtype, void *data, int64_t count, int64_t low, int64_t high, uint64_t *state,
                          struct arena *arena);

/* ------------------------------------------------------------------ the graph */

typedef struct case_instance {
    graph_model *model;
    inlay_graph snapshot;
    inlay_value_state *states;      /* [snapshot.value_count] at the case's shapes, as a plan would know them */
    uint32_t inputs[CASE_INPUTS];   /* values that enter, without constants ... */
    uint32_t input_of[CASE_INPUTS]; /* ... and which of the case's they are */
    uint32_t outputs[CASE_OUTPUTS];
    uint32_t input_count, output_count;
    struct arena arena;
} case_instance;

/* How much a graph says of the shapes of inputs that are no constants. */
enum { CASE_SIZES = 0, CASE_SYMBOLS = 1, CASE_RANK_UNKNOWN = 2 };

/* A model of one node, bound and inferred. What the host itself would refuse fails as it does there. */
INLAY_NODISCARD inlay_status case_graph(const op_case *entry, const graph_operators *operators, uint32_t known,
                                        case_instance *out, inlay_diag *diag);
void case_instance_deinit(case_instance *built);
/* Adds the case's node, with inputs of its own, to a graph that is being built. NULL: no memory. The values of
 * its outputs are the last of the graph. */
graph_node *case_add(const op_case *entry, struct graph *graph, uint32_t known);
/* Has the model import the case's domain; one model imports one version of each. */
inlay_status case_import(const op_case *entry, graph_model *model);
#endif
