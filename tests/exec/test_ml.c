/* Operators of ai.onnx.ml without cases in ONNX's test data: rows with results computed by hand. */
#include "rig.h"
#include <math.h>

enum { ROOM = 32, TENSORS = 3 };

/* Tensors: type, dims, values, as in "f[2,2]=1,2,3,4"; f float, i int64, S strings. Attributes: "name=kind:values" with
 * kinds i, f, s and I, F, S for lists, separated by ';'. An output without values may have any values. */
struct row {
    const char *op;
    int64_t version; /* of the domain */
    const char *attrs, *in, *out;
    const char *message; /* part of the error message; NULL = the node works */
};

#define TWO_TREES                                                                                                      \
    "nodes_treeids=I:0,0,0,1,1,1;nodes_nodeids=I:0,1,2,0,1,2;nodes_featureids=I:0,0,0,1,0,0;"                          \
    "nodes_modes=S:BRANCH_LEQ,LEAF,LEAF,BRANCH_LT,LEAF,LEAF;nodes_values=F:0.5,0,0,2,0,0;"                             \
    "nodes_truenodeids=I:1,0,0,1,0,0;nodes_falsenodeids=I:2,0,0,2,0,0;"
#define TWO_TARGETS                                                                                                    \
    "target_treeids=I:0,0,1,1;target_nodeids=I:1,2,1,2;target_ids=I:0,0,0,0;target_weights=F:10,20,1,5;n_targets=i:1;"
#define THREE_TARGETS                                                                                                  \
    "target_treeids=I:0,0,1,1;target_nodeids=I:1,2,1,2;target_ids=I:0,0,2,0;target_weights=F:10,20,1,5;n_targets=i:3;"
#define ONE_TREE(mode)                                                                                                 \
    "nodes_treeids=I:0,0,0;nodes_nodeids=I:0,1,2;nodes_featureids=I:0,0,0;nodes_modes=S:" mode ",LEAF,LEAF;"           \
    "nodes_values=F:2,0,0;nodes_truenodeids=I:1,0,0;nodes_falsenodeids=I:2,0,0;target_treeids=I:0,0;"                  \
    "target_nodeids=I:1,2;target_ids=I:0,0;target_weights=F:1,-1;n_targets=i:1"
#define SVM "support_vectors=F:1,0,0,1;coefficients=F:2,-1;rho=F:0.5;n_supports=i:2;"

static const struct row rows[] = {
    { "OneHotEncoder", 1, "cats_int64s=I:3,5,7", "i[4]=5,3,9,7", "f[4,3]=0,1,0,1,0,0,0,0,0,0,0,1", NULL },
    { "OneHotEncoder", 1, "cats_strings=S:a,b", "S[3]=b,c,a", "f[3,2]=0,1,0,0,1,0", NULL },
    { "OneHotEncoder", 1, "cats_int64s=I:3,5;zeros=i:0", "i[2]=5,4", "f[2,2]", "element 1 of X is in no category" },
    { "CategoryMapper", 1, "cats_int64s=I:10,20;cats_strings=S:x,y;default_int64=i:-7", "S[3]=y,z,x", "i[3]=20,-7,10",
      NULL },
    { "CategoryMapper", 1, "cats_int64s=I:10,20;cats_strings=S:x,y;default_string=s:none", "i[3]=20,5,10",
      "S[3]=y,none,x", NULL },
    { "LabelEncoder", 1, "classes_strings=S:p,q;default_int64=i:-3", "S[3]=q,w,p", "i[3]=1,-3,0", NULL },
    { "LabelEncoder", 1, "classes_strings=S:p,q;default_string=s:other", "i[3]=1,5,0", "S[3]=q,other,p", NULL },
    { "LabelEncoder", 2, "keys_floats=F:1.5,2;values_strings=S:a,b;default_string=s:zz", "f[3]=2,1.5,3", "S[3]=b,a,zz",
      NULL },
    { "LabelEncoder", 2, "keys_int64s=I:4,6;values_floats=F:0.5,-8;default_float=f:9", "i[3]=6,4,5", "f[3]=-8,0.5,9",
      NULL },
    { "LabelEncoder", 2, "keys_strings=S:k,l;values_int64s=I:11,12", "S[3]=l,k,m", "i[3]=12,11,-1", NULL },
    { "LabelEncoder", 2, "keys_strings=S:k,l;values_int64s=I:11", "S[1]=l", "i[1]", "do not make a table" },
    { "LabelEncoder", 2, "keys_int64s=I:-9000000000,5,9000000000,5;values_int64s=I:1,2,3,4", /* far apart; 5 twice */
      "i[5]=5,9000000000,-9000000000,6,-5", "i[5]=4,3,1,-1,-1", NULL },
    { "LabelEncoder", 2, "keys_int64s=I:-3,-3,-1;values_int64s=I:1,2,3", "i[4]=-3,-1,-2,-4", "i[4]=2,3,-1,-1", NULL },
    { "LabelEncoder", 2, "keys_floats=F:nan,0,1;values_int64s=I:1,2,3", "f[4]=-0,nan,1,2", "i[4]=2,1,3,-1", NULL },
    { "LabelEncoder", 2, "keys_strings=S:a,ab,b,a;values_floats=F:1,2,3,4", "S[4]=b,a,ab,ba", "f[4]=3,4,2,-0", NULL },
    { "OneHotEncoder", 1, "cats_int64s=I:1000000,7;zeros=i:0", "i[1]=8", "f[1,2]", "is in no category" },
    { "Scaler", 1, "offset=F:1,2;scale=F:2,10", "f[2,2]=1,2,3,4", "f[2,2]=0,0,4,20", NULL },
    { "Scaler", 1, "offset=F:1;scale=F:0.5", "i[1,3]=1,2,5", "f[1,3]=0,0.5,2", NULL },
    { "Normalizer", 1, "norm=s:MAX", "f[2,2]=3,4,0,0", "f[2,2]=0.75,1,0,0", NULL },
    { "Normalizer", 1, "norm=s:MAX", "f[2,2]=-8,4,-2,-4", "f[2,2]=-2,1,1,2", NULL },
    { "Normalizer", 1, "norm=s:L1", "f[2,2]=3,-5,0,0", "f[2,2]=0.375,-0.625,0,0", NULL },
    { "Normalizer", 1, "norm=s:L2", "f[2,2]=3,-4,0,0", "f[2,2]=0.6,-0.8,0,0", NULL },
    { "Normalizer", 1, "norm=s:L3", "f[1,1]=3", "f[1,1]", "it must be MAX, L1 or L2" },
    { "Binarizer", 1, "threshold=f:1", "f[4]=1,1.5,-2,7", "f[4]=0,1,0,1", NULL },
    { "Imputer", 1, "imputed_value_floats=F:9,8;replaced_value_float=f:nan", "f[2,2]=nan,1,2,nan", "f[2,2]=9,1,2,8",
      NULL },
    { "Imputer", 1, "imputed_value_int64s=I:5;replaced_value_int64=i:-1", "i[1,3]=-1,2,-1", "i[1,3]=5,2,5", NULL },
    { "FeatureVectorizer", 1, "inputdimensions=I:2,1", "f[2,2]=1,2,3,4 f[2,1]=7,8", "f[2,3]=1,2,7,3,4,8", NULL },
    { "FeatureVectorizer", 1, "inputdimensions=I:3,1", "f[2,2]=1,2,3,4 f[2,1]=7,8", "f[2,4]=1,2,0,7,3,4,0,8", NULL },
    { "FeatureVectorizer", 1, "inputdimensions=I:1,1", "f[2,2]=1,2,3,4 f[2,1]=7,8", "f[2,2]",
      "inputdimensions[0] is 1" },
    { "FeatureVectorizer", 1, "inputdimensions=I:3", "f[2,2]=1,2,3,4 f[2,1]=7,8", "f[2,3]", "1 elements for 2 inputs" },
    { "ArrayFeatureExtractor", 1, "", "f[2,3]=1,2,3,4,5,6 i[2]=2,0", "f[2,2]=3,1,6,4", NULL },
    { "LinearRegressor", 1, "coefficients=F:1,2,3,4;intercepts=F:0.5,-1;targets=i:2", "f[2,2]=1,1,2,0",
      "f[2,2]=3.5,6,2.5,5", NULL },
    { "LinearRegressor", 1, "coefficients=F:1,-1;post_transform=s:LOGISTIC", "f[2,2]=1,1,3,1", "f[2,1]=0.5,0.880797",
      NULL },
    { "LinearRegressor", 1, "coefficients=F:1,2;targets=i:1", "f[1,3]=1,1,1", "f[1,1]",
      "X has 3 features, the model 2" },
    { "LinearClassifier", 1, "coefficients=F:1,0,0,1,-1,-1;intercepts=F:0,0,0.5;classlabels_ints=I:7,8,9",
      "f[3,2]=2,1,0,3,-1,-1", "i[3]=7,8,9 f[3,3]=2,1,-2.5,0,3,-2.5,-1,-1,2.5", NULL },
    { "LinearClassifier", 1,
      "coefficients=F:1,0,0,1,-1,-1;intercepts=F:0,0,0;classlabels_strings=S:a,b,c;post_transform=s:SOFTMAX",
      "f[1,2]=1,0", "S[1]=a f[1,3]=0.665241,0.244728,0.090031", NULL },
    { "LinearClassifier", 1, "coefficients=F:1,-1;intercepts=F:0;classlabels_ints=I:4,6;post_transform=s:LOGISTIC",
      "f[2,2]=2,1,1,2", "i[2]=6,4 f[2,2]=0.268941,0.731059,0.731059,0.268941", NULL },
    { "LinearClassifier", 1, "coefficients=F:1,2;intercepts=F:0,0;classlabels_ints=I:0,1;classlabels_strings=S:a,b",
      "f[1,1]=1", "S[1] f[1,2]", "omit one of them" },
    { "TreeEnsembleRegressor", 1, TWO_TREES TWO_TARGETS "base_values=F:0.25", "f[2,2]=0.5,2,0.6,1",
      "f[2,1]=15.25,21.25", NULL },
    { "TreeEnsembleRegressor", 1, /* the same trees with unordered ids */
      "nodes_treeids=I:9,9,9,4,4,4;nodes_nodeids=I:70,-3,8,2,1,0;nodes_featureids=I:0,0,0,1,0,0;"
      "nodes_modes=S:BRANCH_LEQ,LEAF,LEAF,BRANCH_LT,LEAF,LEAF;nodes_values=F:0.5,0,0,2,0,0;"
      "nodes_truenodeids=I:-3,0,0,1,0,0;nodes_falsenodeids=I:8,0,0,0,0,0;target_treeids=I:4,9,4,9;"
      "target_nodeids=I:0,8,1,-3;target_ids=I:0,0,0,0;target_weights=F:5,20,1,10;n_targets=i:1;base_values=F:0.25",
      "f[2,2]=0.5,2,0.6,1", "f[2,1]=15.25,21.25", NULL },
    { "TreeEnsembleRegressor", 1, /* a child whose number is the largest integer */
      "nodes_treeids=I:0,0,0,1,1,1;nodes_nodeids=I:0,1,2,0,1,2;nodes_featureids=I:0,0,0,1,0,0;"
      "nodes_modes=S:BRANCH_LEQ,LEAF,LEAF,BRANCH_LT,LEAF,LEAF;nodes_values=F:0.5,0,0,2,0,0;"
      "nodes_truenodeids=I:1,0,0,1,0,0;nodes_falsenodeids=I:2,0,0,9223372036854775807,0,0;" TWO_TARGETS,
      "f[2,2]=0.5,2,0.6,1", "f[2,1]", "unknown child" },
    { "TreeEnsembleRegressor", 1, /* early converters wrote weights for all nodes; only those of leaves count */
      TWO_TREES "target_treeids=I:0,0,0,1,1,1;target_nodeids=I:0,1,2,0,1,2;target_ids=I:0,0,0,0,0,0;"
                "target_weights=F:7,10,20,-9,1,5;n_targets=i:1;base_values=F:0.25",
      "f[2,2]=0.5,2,0.6,1", "f[2,1]=15.25,21.25", NULL },
    { "TreeEnsembleRegressor", 1,
      TWO_TREES "target_treeids=I:0,1;target_nodeids=I:1,3;target_ids=I:0,0;target_weights=F:7,10;n_targets=i:1",
      "f[2,2]=0.5,2,0.6,1", "f[2,1]", "node 3 of tree 1, which does not exist" },
    { "TreeEnsembleRegressor", 1, TWO_TREES TWO_TARGETS "aggregate_function=s:AVERAGE", "f[2,2]=0.5,2,0.6,1",
      "f[2,1]=7.5,10.5", NULL },
    { "TreeEnsembleRegressor", 1, TWO_TREES TWO_TARGETS "aggregate_function=s:MIN", "f[2,2]=0.5,2,0.6,1", "f[2,1]=5,1",
      NULL },
    { "TreeEnsembleRegressor", 1, TWO_TREES TWO_TARGETS "aggregate_function=s:MAX", "f[2,2]=0.5,2,0.6,1",
      "f[2,1]=10,20", NULL },
    { "TreeEnsembleRegressor", 1, TWO_TREES TWO_TARGETS "nodes_missing_value_tracks_true=I:1,0,0,0,0,0",
      "f[2,2]=nan,0,0,nan", "f[2,1]=11,15", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_LEQ"), "f[3,1]=1,2,3", "f[3,1]=1,1,-1", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_LT"), "f[3,1]=1,2,3", "f[3,1]=1,-1,-1", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_GTE"), "f[3,1]=1,2,3", "f[3,1]=-1,1,1", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_GT"), "f[3,1]=1,2,3", "f[3,1]=-1,-1,1", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_EQ"), "f[3,1]=1,2,3", "f[3,1]=-1,1,-1", NULL },
    { "TreeEnsembleRegressor", 1, ONE_TREE("BRANCH_NEQ"), "f[3,1]=1,2,3", "f[3,1]=1,-1,1", NULL },
    { "TreeEnsembleRegressor", 1,
      TWO_TREES THREE_TARGETS
      "base_values=F:0.25,0.5,-2", /* target 1 has no leaf, so that its base value is not added */
      "f[2,2]=0.5,2,0.6,1", "f[2,3]=15.25,0,-2,20.25,0,-1", NULL },
    { "TreeEnsembleClassifier", 1,
      TWO_TREES
      "class_treeids=I:0,0,1,1;class_nodeids=I:1,2,1,2;class_ids=I:0,1,2,1;class_weights=F:0.25,0.5,0.5,0.125;"
      "classlabels_int64s=I:5,6,7",
      "f[3,2]=0,0,1,3,0,3", "i[3]=7,6,5 f[3,3]=0.25,0,0.5,0,0.625,0,0.25,0.125,0", NULL },
    { "TreeEnsembleClassifier", 1,
      TWO_TREES "class_treeids=I:0,0,0,1,1,1;class_nodeids=I:0,1,2,0,1,2;class_ids=I:1,0,1,2,2,1;"
                "class_weights=F:9,0.25,0.5,9,0.5,0.125;classlabels_int64s=I:5,6,7",
      "f[3,2]=0,0,1,3,0,3", "i[3]=7,6,5 f[3,3]=0.25,0,0.5,0,0.625,0,0.25,0.125,0", NULL },
    { "SVMRegressor", 1, SVM "kernel_type=s:LINEAR;kernel_params=F:0,0,0", "f[2,2]=1,1,3,2", "f[2,1]=1.5,4.5", NULL },
    { "SVMRegressor", 1, SVM "kernel_type=s:POLY;kernel_params=F:1,1,2", "f[2,2]=1,1,0,2", "f[2,1]=4.5,-6.5", NULL },
    { "SVMRegressor", 1, "coefficients=F:2,-1;rho=F:0.5;kernel_type=s:POLY;kernel_params=F:1,1,2", "f[2,2]=1,1,3,2",
      "f[2,1]=1.5,4.5", NULL },
    { "SVMRegressor", 1, SVM "kernel_type=s:RBF;kernel_params=F:0.5", "f[1,2]=1,0", "f[1,1]",
      "kernel_params has 1 elements, not 3" },
    { "SVMRegressor", 1, SVM "kernel_type=s:RBF", "f[1,2]=1,0", "f[1,1]", "kernel_params has 0 elements, not 3" },
    { "SVMRegressor", 1, SVM "kernel_type=s:RBF;kernel_params=F:0.5,0,0", "f[1,2]=1,0", "f[1,1]=2.1321206", NULL },
    { "SVMRegressor", 1, SVM "kernel_type=s:SIGMOID;kernel_params=F:0.5,0.25,0", "f[1,2]=1,0", "f[1,1]=1.5253793",
      NULL },
    { "SVMClassifier", 1,
      "support_vectors=F:1,0,0,1;coefficients=F:1,-1;rho=F:0.1;vectors_per_class=I:1,1;classlabels_ints=I:4,5;"
      "kernel_params=F:0,0,0",
      "f[2,2]=2,0,0,2", "i[2]=4,5 f[2,2]=-2.1,2.1,1.9,-1.9", NULL }, /* as in ONNX Runtime */
};

/* Operators of com.microsoft, as in ONNX Runtime. */
static const struct row microsoft[] = {
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:1;pad_value=s:#;separators=S:_,-", "S[2]=a_b-c,d", "S[2,3]=a,b,c,d,#,#",
      NULL },
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:2;pad_value=s:#;separators=S:[_.]+", "S[2]=ab__c,xy_.zz",
      "S[2,2]=ab,#,xy,zz", NULL },
    { "Tokenizer", 1, "mark=i:1;mincharnum=i:1;pad_value=s:#;tokenexp=s:[a-c]+", "S[2]=xabxc,a",
      "S[2,4]=\x02,ab,c,\x03,\x02,a,\x03,#", NULL },
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:3;pad_value=s:#;tokenexp=s:o|ow|own", "S[1]=brown", "S[1,1]=own", NULL },
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:0;pad_value=s:#;tokenexp=s:a", "S[1]=a", "S[1,1]", "mincharnum is 0" },
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:1;pad_value=s:#", "S[1]=a", "S[1,1]", "separators or tokenexp" },
    { "Tokenizer", 1, "mark=i:0;mincharnum=i:1;pad_value=s:#;tokenexp=s:(", "S[1]=a", "S[1,1]", "pattern" },
};

/* Splits "a,b,c" into at most ROOM strings. */
static uint32_t cut(char *text, char **out)
{
    uint32_t n = 0;

    for (char *save = NULL, *t = strtok_r(text, ",", &save); t != NULL; t = strtok_r(NULL, ",", &save)) {
        assert_in_range(n, 0, ROOM - 1);
        out[n++] = t;
    }
    return n;
}

static void add_attribute(struct wire *wire, char *text)
{
    static const struct {
        char kind;
        int type;
    } kinds[] = { { 'f', 1 }, { 'i', 2 }, { 's', 3 }, { 'F', 6 }, { 'I', 7 }, { 'S', 8 } };
    char *name = text, *kind = strchr(text, '='), *values[ROOM];
    uint32_t n;
    int type = 0;
    wire_mark mark;

    *kind++ = '\0';
    n = cut(kind + 2, values);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        type = kinds[i].kind == *kind ? kinds[i].type : type;
    mark = mw_attr_begin(wire, name, type);
    for (uint32_t i = 0; i < n; i++) {
        if (*kind == 'f' || *kind == 'F')
            wire_float(wire, *kind == 'f' ? 2 : 7, strtof(values[i], NULL));
        else if (*kind == 'i' || *kind == 'I')
            wire_int(wire, *kind == 'i' ? 3 : 8, strtoll(values[i], NULL, 10));
        else
            wire_text(wire, *kind == 's' ? 4 : 9, values[i]);
    }
    wire_end(wire, mark);
}

struct tensor {
    inlay_dtype dtype;
    char dims[16];
    char *texts[ROOM];
    uint32_t count;
    char room[256];
};

/* Parses the tensors of a text and returns their number. */
static uint32_t parse(const char *text, struct tensor *out)
{
    char copy[512], *save = NULL;
    uint32_t n = 0;

    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *t = strtok_r(copy, " ", &save); t != NULL; t = strtok_r(NULL, " ", &save), n++) {
        char *end = strchr(t, ']'), *values = strchr(t, '=');
        struct tensor *tensor = &out[n];

        assert_in_range(n, 0, TENSORS - 1);
        *end = '\0';
        tensor->dtype = *t == 'f' ? INLAY_FLOAT : *t == 'i' ? INLAY_INT64 : INLAY_STRING;
        (void)snprintf(tensor->dims, sizeof tensor->dims, "%s", t + 2);
        (void)snprintf(tensor->room, sizeof tensor->room, "%s", values != NULL ? values + 1 : "");
        tensor->count = cut(tensor->room, tensor->texts);
    }
    return n;
}

static void bind(struct rig *rig, uint32_t input, const struct tensor *tensor)
{
    float floats[ROOM];
    int64_t ints[ROOM];

    for (uint32_t i = 0; i < tensor->count; i++) {
        floats[i] = strtof(tensor->texts[i], NULL);
        ints[i] = strtoll(tensor->texts[i], NULL, 10);
    }
    if (tensor->dtype == INLAY_STRING)
        rig_bind(rig, input, rig_texts(tensor->count, (const char *const *)tensor->texts));
    else
        rig_set(rig, input, tensor->dtype, tensor->dims,
                tensor->dtype == INLAY_FLOAT ? (const void *)floats : (const void *)ints);
}

static void expect(const struct row *at, struct rig *rig, uint32_t output, const struct tensor *want)
{
    const inlay_value *value = inlay_context_output(rig->context, output);
    int64_t dims[INLAY_MAX_RANK];

    assert_int_equal(inlay_value_dtype(value), want->dtype);
    assert_int_equal(inlay_value_rank(value), mw_dims(want->dims, dims));
    for (uint32_t d = 0; d < inlay_value_rank(value); d++)
        assert_int_equal(inlay_value_dims(value)[d], dims[d]);
    if (want->count == 0) /* any elements are accepted */
        return;
    assert_int_equal(inlay_value_count(value), want->count);
    if (want->dtype == INLAY_STRING)
        rig_expect_texts(value, want->count, (const char *const *)want->texts);
    for (uint32_t i = 0; want->dtype != INLAY_STRING && i < want->count; i++) {
        double got = want->dtype == INLAY_FLOAT ? (double)((const float *)inlay_value_data(value))[i]
                                                : (double)((const int64_t *)inlay_value_data(value))[i];

        if (!(fabs(got - strtod(want->texts[i], NULL)) <= 1e-6 * (1 + fabs(got))))
            fail_msg("%s, %s: element %u is %g instead of %s", at->op, at->attrs, i, got, want->texts[i]);
    }
}

/* Runs the node of a row with other attributes. */
static inlay_status run_node(const struct row *at, const char *attrs, const char *domain, struct rig *rig,
                             inlay_diag *diag)
{
    static struct tensor in[TENSORS], out[TENSORS];
    const uint32_t ins = parse(at->in, in), outs = parse(at->out, out);
    char copy[1024], *save = NULL, name[2] = "a";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    inlay_status status;

    for (uint32_t i = 0; i < ins; i++, name[0]++)
        mw_value(&wire, MW_INPUT, name, (int)in[i].dtype, in[i].dims);
    n = mw_node_begin(&wire, at->op, ins == 1 ? "a" : "a,b", outs == 1 ? "y" : "y,z");
    wire_text(&wire, 7, domain);
    (void)snprintf(copy, sizeof copy, "%s", attrs);
    for (char *t = strtok_r(copy, ";", &save); t != NULL; t = strtok_r(NULL, ";", &save))
        add_attribute(&wire, t);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", (int)out[0].dtype, NULL);
    if (outs > 1)
        mw_value(&wire, MW_OUTPUT, "z", (int)out[1].dtype, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, domain, at->version);
    status = rig_try_open(&wire, NULL, rig, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < ins; i++)
        bind(rig, i, &in[i]);
    return status == INLAY_OK ? inlay_context_run(rig->context, NULL, diag) : status;
}

static void run_row(const struct row *at, const char *domain)
{
    static struct tensor out[TENSORS];
    const uint32_t outs = parse(at->out, out);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;
    const inlay_status status = run_node(at, at->attrs, domain, &rig, &diag);

    if ((status == INLAY_OK) != (at->message == NULL) ||
        (at->message != NULL && strstr(diag.text, at->message) == NULL))
        fail_msg("%s, %s: %d, '%s'", at->op, at->attrs, (int)status, diag.text);
    for (uint32_t i = 0; status == INLAY_OK && i < outs; i++)
        expect(at, &rig, i, &out[i]);
    rig_close(&rig);
}

enum { LAST_REMOVED = 1, FIRST_REPEATED = 2, LIST_REMOVED = 4, UNKNOWN_WORD = 8 };

/* Damages that give another valid model. A model with one of several labels is that of two classes. */
static const struct harmless {
    const char *op, *attribute;
    int ways;
} harmless[] = {
    { "OneHotEncoder", "cats_int64s", LAST_REMOVED | FIRST_REPEATED },
    { "OneHotEncoder", "cats_strings", LAST_REMOVED | FIRST_REPEATED },
    { "LabelEncoder", "classes_strings", LAST_REMOVED | FIRST_REPEATED },
    { "Scaler", "offset", LIST_REMOVED },
    { "Scaler", "scale", LIST_REMOVED },
    { "Imputer", "imputed_value_floats", LAST_REMOVED },
    { "FeatureVectorizer", "inputdimensions", LIST_REMOVED },
    { "LinearRegressor", "intercepts", LIST_REMOVED },
    { "LinearClassifier", "intercepts", LIST_REMOVED },
    { "LinearClassifier", "classlabels_ints", LAST_REMOVED },
    { "TreeEnsembleRegressor", "base_values", LIST_REMOVED },
    { "TreeEnsembleRegressor", "nodes_missing_value_tracks_true", LIST_REMOVED },
    { "TreeEnsembleClassifier", "classlabels_int64s", FIRST_REPEATED },
    { "SVMRegressor", "rho", FIRST_REPEATED },
    { "SVMRegressor", "kernel_params", FIRST_REPEATED | LIST_REMOVED }, /* linear ones need none */
    { "SVMClassifier", "rho", FIRST_REPEATED },
    { "SVMClassifier", "kernel_params", FIRST_REPEATED | LIST_REMOVED },
    { "SVMClassifier", "classlabels_ints", FIRST_REPEATED },
};

static bool is_harmless(const struct row *row, const char *attribute, int way)
{
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(harmless[i].op, row->op) == 0 && strcmp(harmless[i].attribute, attribute) == 0)
            return (harmless[i].ways & way) != 0;
    return false;
}

/* Copies the attributes to `to`, with a damage of the one at `at`. false: this attribute cannot be damaged so. */
static bool damage(const char *attrs, const char *at, int way, char *to, size_t room)
{
    const char *values = strchr(at, '=') + 3, *end = at + strcspn(at, ";"), *last = end;
    const bool is_list = values[-2] < 'a';
    int kept, copied = 0;

    while (last > values && *last != ',')
        last--;
    if (way == UNKNOWN_WORD ? values[-2] != 's' || values[0] < 'A' || values[0] > 'Z'
                            : !is_list || (way == LAST_REMOVED && last == values))
        return false;
    kept = (int)((way == LAST_REMOVED     ? last
                  : way == FIRST_REPEATED ? end
                  : way == LIST_REMOVED   ? at
                                          : values) -
                 attrs);
    if (way == FIRST_REPEATED)
        copied = (int)strcspn(values, ",;");
    (void)snprintf(to, room, "%.*s%s%.*s%s", kept, attrs,
                   way == UNKNOWN_WORD     ? "OTHER"
                   : way == FIRST_REPEATED ? ","
                                           : "",
                   copied, values, way == LIST_REMOVED && *end == ';' ? end + 1 : end);
    return true;
}

/* Each list of each model above with an entry less or more, or missing, and each word of an enumeration replaced. */
static void damaged(void **state)
{
    char attrs[1024], name[64];
    int refused = 0;

    (void)state;
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof rows[0]; row++)
        for (const char *at = row->attrs; row->message == NULL && *at != '\0'; at += strcspn(at, ";"), at += *at == ';')
            for (int way = LAST_REMOVED; way <= UNKNOWN_WORD; way *= 2) {
                inlay_diag diag = INLAY_DIAG_INIT;
                struct rig rig = { 0 };

                (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "="), at);
                if (is_harmless(row, name, way) || !damage(row->attrs, at, way, attrs, sizeof attrs))
                    continue;
                if (run_node(row, attrs, "ai.onnx.ml", &rig, &diag) == INLAY_OK)
                    fail_msg("%s runs with damaged %s: %s", row->op, name, attrs);
                assert_non_null(strstr(diag.text, row->op));
                rig_close(&rig);
                refused++;
            }
    assert_in_range(refused, 200, 1000);
}

static void computed_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        run_row(&rows[i], "ai.onnx.ml");
}

static void contributed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof microsoft / sizeof microsoft[0]; i++)
        run_row(&microsoft[i], "com.microsoft");
}

#include "tree_grid.inc"

static const char *const grid_weights[] = { "0.3,0.8", "-0.3,0.4", "-0.3,-0.8", "0,0", "0,0.6", "2.5,-0.1" };
static const char *const grid_bases[] = { "", "0.2", "-0.7", "0.2,0.2", "0.1,-0.4" };
static const char *const grid_transforms[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };

/* Runs one case and compares it with its record "label label score score score score". */
static void run_grid(const char *weights, const char *base, int id, const char *transform, const char *record)
{
    char attributes[512], copy[256], *save = NULL;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    const bool is_probit = strcmp(transform, "PROBIT") == 0;
    const float x[] = { 0, 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)snprintf(
        attributes, sizeof attributes,
        "nodes_treeids=I:0,0,0;nodes_nodeids=I:0,1,2;nodes_featureids=I:0,0,0;nodes_modes=S:BRANCH_LEQ,LEAF,"
        "LEAF;nodes_values=F:0.5,0,0;nodes_truenodeids=I:1,0,0;nodes_falsenodeids=I:2,0,0;class_treeids=I:0,0;"
        "class_nodeids=I:1,2;class_ids=I:%d,%d;class_weights=F:%s;classlabels_int64s=I:0,1;post_transform=s:%s%s"
        "%s",
        id, id, weights, transform, base[0] != '\0' ? ";base_values=F:" : "", base);
    mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "2,1");
    n = mw_node_begin(&wire, "TreeEnsembleClassifier", "a", "y,z");
    wire_text(&wire, 7, "ai.onnx.ml");
    (void)snprintf(copy, sizeof copy, "%s", record);
    for (char *t = strtok_r(attributes, ";", &save); t != NULL; t = strtok_r(NULL, ";", &save))
        add_attribute(&wire, t);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_INT64, NULL);
    mw_value(&wire, MW_OUTPUT, "z", INLAY_FLOAT, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "ai.onnx.ml", 1);
    assert_int_equal(rig_try_open(&wire, NULL, &rig, &diag), INLAY_OK);
    rig_set(&rig, 0, INLAY_FLOAT, "2,1", x);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
    save = NULL;
    for (int i = 0; i < 6; i++) {
        const char *want = strtok_r(i == 0 ? copy : NULL, " ", &save);
        const double got = i < 2
                               ? (double)((const int64_t *)inlay_value_data(inlay_context_output(rig.context, 0)))[i]
                               : (double)((const float *)inlay_value_data(inlay_context_output(rig.context, 1)))[i - 2];
        const double value = strtod(want, NULL);
        /* the inverse error function is an approximation with four digits */
        const double allowed = (is_probit ? 3e-4 : 2e-6) * (1 + fabs(value));

        if (want[0] != '_' && !(isnan(value) ? isnan(got) : isinf(value) ? got == value : fabs(got - value) <= allowed))
            fail_msg("weights %s of class %d, base_values '%s', %s: %s %d is %g instead of %s", weights, id, base,
                     transform, i < 2 ? "label" : "score", i < 2 ? i : i - 2, got, want);
    }
    rig_close(&rig);
}

static void one_class_of_two(void **state)
{
    const char *const *record = tree_grid;

    (void)state;
    for (size_t weight = 0; weight < sizeof grid_weights / sizeof grid_weights[0]; weight++) {
        for (size_t b = 0; b < sizeof grid_bases / sizeof grid_bases[0]; b++) {
            for (int id = 0; id < 2; id++, record++) {
                const char *at = *record;

                for (size_t transform = 0; transform < sizeof grid_transforms / sizeof grid_transforms[0];
                     transform++) {
                    char one[128];

                    (void)snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "|"), at);
                    run_grid(grid_weights[weight], grid_bases[b], id, grid_transforms[transform], one);
                    at += strcspn(at, "|") + 1;
                }
            }
        }
    }
    assert_int_equal(record - tree_grid, sizeof tree_grid / sizeof tree_grid[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(computed_by_hand), cmocka_unit_test(contributed),
                                        cmocka_unit_test(damaged), cmocka_unit_test(one_class_of_two) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
