/* check/case.h - one operator with inputs and attributes, as a graph of one node to show to providers.
 *
 *     op_case k;
 *     case_init(&k, "ai.onnx", "Relu", 14);
 *     case_input(&k, INLAY_FLOAT, 2, dims, false);
 *     case_fill(&k, seed);                                   elements
 *     case_graph(&k, operators, CASE_SIZES, &one, &diag);    bound, inferred, as a snapshot */
#ifndef CHECK_CASE_H
#define CHECK_CASE_H
#include "check/check.h"
#include "inlay/execution.h"

enum { CASE_INPUTS = 24, CASE_ATTRS = 24, CASE_OUTPUTS = 16, CASE_RANK = 8 };

/* The magnitude of random numbers. */
enum {
    CASE_USUAL,   /* floats in [-2, 2), integers in [low, high] */
    CASE_LARGE,   /* floats in [-128, 128); 8-bit integers of every value; a few integers beyond those of a float */
    CASE_SHIFTED, /* floats in [98, 102) */
    CASE_FEW,     /* floats that are multiples of 0.5 in [-2, 2]: many are equal */
    CASE_HUGE,    /* floats in [-2^21, 2^21), beyond the numbers of float16 */
    CASE_MAGNITUDES
};

typedef struct case_tensor {
    inlay_dtype dtype; /* INLAY_UNDEFINED: omitted */
    uint32_t rank;
    int64_t dims[CASE_RANK];
    int64_t count;
    uint64_t bytes;
    void *data;          /* [count] elements in the arena of the case, or the caller's; NULL until filled */
    const double *given; /* [given_count] fixed elements instead of random ones, or NULL */
    uint32_t given_count;
    int64_t low, high;  /* range of random integers */
    uint32_t magnitude; /* CASE_USUAL ..., of FLOAT, DOUBLE and integers */
    uint32_t same_as;   /* 1 + the index of an earlier input whose value the node reads here, too; 0: its own */
    bool constant;
} case_tensor;

typedef struct op_case {
    char domain[64], op_type[64];
    int64_t opset; /* version of the domain that the model imports */
    case_tensor in[CASE_INPUTS];
    uint32_t in_count, out_count;
    inlay_attr_info attrs[CASE_ATTRS];
    uint32_t attr_count;
    bool random;        /* the operator is random: two runs may differ */
    struct arena arena; /* memory of elements and attributes */
} op_case;

void case_init(op_case *entry, const char *domain, const char *op_type, int64_t opset);
void case_deinit(op_case *entry);
/* Adds an input; NULL: too many inputs, or the rank is too high. dtype INLAY_UNDEFINED: omitted. */
case_tensor *case_input(op_case *entry, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant);
/* Adds an attribute. The caller keeps its name and lists alive as long as the case. False: too many attributes. */
bool case_attr(op_case *entry, const inlay_attr_info *attr);
/* Generates elements for the inputs without data. INLAY_LIMIT_EXCEEDED: too many. */
INLAY_NODISCARD inlay_status case_fill(op_case *entry, uint64_t seed);
/* A copy of the case with other random floats or, if it has no floats, with all random elements changed. Constants,
 * given elements and attributes stay, and belong to `from`. Free it with case_deinit(). False: no memory, or nothing to
 * vary. */
bool case_vary(const op_case *from, uint64_t seed, op_case *out);
/* A copy of the case whose float and double inputs hold special values. CASE_SPECIAL: NaN, infinities, denormals, zeros
 * of both signs and the largest numbers, in changing combinations; CASE_NO_NAN: the same without NaN; CASE_ONE_NAN: the
 * first of these inputs has a NaN, all other elements are equal; CASE_ONE_LOW: likewise minus infinity. False: as in
 * case_vary(). */
enum { CASE_SPECIAL, CASE_NO_NAN, CASE_ONE_NAN, CASE_ONE_LOW };
bool case_special(const op_case *from, uint32_t values, op_case *out);
/* A copy in which input `input` is a constant; it borrows the arena of the original. */
op_case case_with_constant(const op_case *from, uint32_t input);
/* "Conv-22 float[2,3,9,7](large) float[4,3,3,3]! pads=[1,1,1,1]", cut to fit; ! marks constants, = the elements of
 * short lists, (large) and other words the magnitude of random elements, (input 0) the value of another input. */
char *case_text(const op_case *entry, char *text, size_t bytes);

/* Failures of the cases of one group of checks, of which the first `most` are reported. */
typedef struct case_failures {
    struct check *check;
    const char *group;
    uint32_t most, count;
} case_failures;
INLAY_PRINTF(5, 6)
void case_fail(case_failures *failures, const op_case *entry, const char *expected, const char *fix, const char *format,
               ...);
/* Reports the number of the others, if there are any; otherwise returns false. */
bool case_fail_others(const case_failures *failures, const char *subject);

typedef struct case_instance {
    graph_model *model;
    inlay_graph snapshot;
    inlay_value_state *states;      /* [snapshot.value_count] for the shapes of the case, as in an execution plan */
    uint32_t inputs[CASE_INPUTS];   /* graph inputs that are not constant ... */
    uint32_t input_of[CASE_INPUTS]; /* ... and their indices in op_case.in */
    uint32_t outputs[CASE_OUTPUTS];
    uint32_t input_count, output_count;
    uint32_t node; /* index of the node of the case */
    struct arena arena;
} case_instance;

/* What the graph states about the shapes of non-constant inputs: the sizes, a symbol for each size, or not even the
 * rank. */
enum { CASE_SIZES = 0, CASE_SYMBOLS = 1, CASE_RANK_UNKNOWN = 2 };

/* Builds a model of one node, bound and inferred. Fails with the host's own error if the host would refuse the node. */
INLAY_NODISCARD inlay_status case_graph(const op_case *entry, const graph_operators *operators, uint32_t known,
                                        case_instance *out, inlay_diag *diag);
/* Like case_graph(), with another node of the same kind in front, which has separate inputs. So the node of the case
 * and its values have other indices. */
INLAY_NODISCARD inlay_status case_graph_behind(const op_case *entry, const graph_operators *operators,
                                               case_instance *out, inlay_diag *diag);
void case_instance_deinit(case_instance *built);
/* Adds the node of the case, with separate inputs, to a graph under construction. NULL: no memory. The values of its
 * outputs are the last values of the graph. */
graph_node *case_add(const op_case *entry, struct graph *graph, uint32_t known);
/* Adds the domain of the case to the model's imports; a model imports one version of each domain. */
inlay_status case_import(const op_case *entry, graph_model *model);
#endif
