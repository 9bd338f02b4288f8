/* gguf_experts.c - layers with experts: the router, and which experts it chooses. The operators MoE and QMoE choose
 * those with the largest logits and weigh them by a softmax. Where llama.cpp chooses or weighs otherwise, their logits
 * are logarithms of the weights, and those of experts that are not chosen are very small. */
#include "formats/gguf_experts.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The tensor of all experts of a layer, [columns, rows, experts]; NULL after a failure. */
static const struct gguf_tensor *stack_of(struct builder *b, const char *layer, const char *part, int64_t columns,
                                          int64_t rows)
{
    char name[GGUF_NAME];
    const struct gguf_tensor *tensor;

    (void)snprintf(name, sizeof name, "%sffn_%s_exps.weight", layer, part);
    tensor = gguf_tensor(b->gguf, name);
    if (tensor == NULL)
        gguf_builder_refuse(b, INLAY_UNSUPPORTED, "has experts; those of a layer must be in one tensor,", name);
    else if (tensor->rank != 3 || tensor->dims[0] != columns || tensor->dims[1] != rows ||
             tensor->dims[2] != b->mixture.count)
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has a shape that does not match its metadata for the tensor",
                            name);
    return tensor;
}

/* The biases of all experts of a layer, [rows, experts]; NULL: none, or after a failure. */
static const struct gguf_tensor *biases_of(struct builder *b, const char *layer, const char *part, int64_t rows)
{
    char name[GGUF_NAME];

    (void)snprintf(name, sizeof name, "%sffn_%s_exps.bias", layer, part);
    return b->architecture->oai ? gguf_builder_tensor(b, name, rows, b->mixture.count) : NULL;
}

/* Of the enumeration of llama.cpp; 3 and 4 are further ones. */
enum { GATING_NONE, GATING_SOFTMAX, GATING_SIGMOID };

/* Of architectures that state how experts are chosen and weighted. */
static void read_routing(struct builder *b)
{
    const bool latent = b->architecture->latent;
    const int64_t gating =
        (int64_t)gguf_float_or(b->gguf, GGUF_GATING, latent ? (double)GATING_NONE : (double)INFINITY);
    const struct gguf_tensor *embedding = gguf_tensor(b->gguf, "token_embd.weight");
    const int64_t words = embedding != NULL && embedding->rank == 2 ? embedding->dims[1] : 0;

    b->mixture.dense_layers = gguf_int(b->gguf, GGUF_DENSE_LAYERS);
    /* files of GLM 4.7 Flash without the key, which llama.cpp knows by their sizes */
    b->mixture.sigmoid =
        gating == GATING_SIGMOID || (gating == GATING_NONE && (b->layers == 47 || b->layers == 48) && words == 154880);
    if (b->gguf->status == INLAY_OK && (gating < (latent ? GATING_NONE : GATING_SOFTMAX) || gating > GATING_SIGMOID))
        gguf_fail_key(b->gguf, GGUF_GATING, "has another value than 1 (softmax) and 2 (sigmoid) for the key");
    if (!latent)
        return;
    b->mixture.shared_hidden = b->mixture.hidden * gguf_builder_size(b, GGUF_SHARED_EXPERTS, MAX_EXPERTS);
    b->mixture.keeps_shares = gguf_int(b->gguf, GGUF_SHARE_NORM) == 0;
    b->mixture.share_scale = gguf_float(b->gguf, GGUF_SHARE_SCALE);
}

void gguf_read_experts(struct builder *b)
{
    const int64_t used = gguf_int(b->gguf, GGUF_EXPERTS_USED);

    b->mixture.step = 1;
    b->mixture.count = gguf_int(b->gguf, GGUF_EXPERTS);
    b->mixture.groups = gguf_int(b->gguf, GGUF_EXPERT_GROUPS);
    if (b->mixture.count == 0 && b->architecture->llama4)
        gguf_fail_key(b->gguf, GGUF_EXPERTS, "has no experts by the key");
    if (b->mixture.count == 0 ? used != 0 : !b->architecture->experts)
        gguf_fail_key(b->gguf, GGUF_EXPERTS_USED, "uses experts, but it or its architecture has none, by the key");
    if (b->mixture.groups < 0 || (b->mixture.count == 0 && b->mixture.groups != 0))
        gguf_fail_key(b->gguf, GGUF_EXPERT_GROUPS, "has groups of experts that it does not have, by the key");
    if (b->mixture.count == 0)
        return;
    b->mixture.count = gguf_builder_size(b, GGUF_EXPERTS, MAX_EXPERTS);
    b->mixture.used = gguf_builder_size(b, GGUF_EXPERTS_USED, b->mixture.count);
    b->mixture.hidden = b->hidden;
    if ((b->architecture->readers & GGUF_READ_BY_ROUTED) != 0 || b->architecture->llama4)
        b->mixture.hidden = (int64_t)gguf_float_or(b->gguf, GGUF_EXPERT_HIDDEN, (double)INFINITY);
    else if ((b->architecture->readers & GGUF_READ_BY_QWEN_MOE) != 0)
        b->mixture.hidden = gguf_int_or(b->gguf, GGUF_EXPERT_HIDDEN, used > 0 ? b->hidden / used : 0);
    if (b->gguf->status == INLAY_OK && (b->mixture.hidden < 1 || b->mixture.hidden > 1 << 24))
        gguf_fail_key(b->gguf, GGUF_EXPERT_HIDDEN, "has a value that is out of range for the key");
    b->mixture.shared_hidden = gguf_builder_size_or(b, GGUF_SHARED_HIDDEN, b->hidden, 1 << 24);
    b->mixture.keeps_shares = b->architecture->keeps_shares;
    if (b->mixture.groups > 1) {
        const int64_t size = b->mixture.count / b->mixture.groups;

        b->mixture.groups_used = gguf_builder_size(b, GGUF_EXPERT_GROUPS_USED, b->mixture.groups - 1);
        if (size < 2 || size * b->mixture.groups != b->mixture.count || b->mixture.used > size * b->mixture.groups_used)
            gguf_fail_key(b->gguf, GGUF_EXPERT_GROUPS,
                          "has groups of one expert, of different sizes, or too few for its experts, by the key");
    }
    if ((b->architecture->readers & GGUF_READ_BY_ROUTED) != 0)
        read_routing(b);
    if (!b->architecture->llama4)
        return;
    b->mixture.step = gguf_builder_size(b, GGUF_EXPERT_STEP, MAX_LAYERS);
    b->mixture.shared_hidden = b->mixture.hidden;
    b->mixture.sigmoid = true;
    if (b->mixture.used != 1)
        gguf_fail_key(b->gguf, GGUF_EXPERTS_USED, "uses several experts, which is not supported here, by the key");
}

void gguf_begin_experts(struct builder *b)
{
    const int64_t last[] = { -1 }, two[] = { 2 };

    gguf_builder_list(b, "router.shape", (int64_t[]){ -1, b->mixture.count }, 2);
    gguf_builder_list(b, "router.last", last, 1);
    gguf_builder_list(b, "router.used", &b->mixture.used, 1);
    gguf_builder_program(b, "-1e30 > router.none;0 > router.zero;", "");
    if (b->mixture.share_scale != 0)
        gguf_builder_scalar(b, "router.scale", b->mixture.share_scale);
    if (b->mixture.groups <= 1)
        return;
    gguf_builder_list(b, "router.two", two, 1);
    gguf_builder_list(b, "router.groups", (int64_t[]){ 0, 0, b->mixture.groups, b->mixture.count / b->mixture.groups },
                      4);
    gguf_builder_list(b, "router.joined", (int64_t[]){ 0, 0, b->mixture.count }, 3);
    gguf_builder_list(b, "router.groups_used", &b->mixture.groups_used, 1);
}

static void sum_last(struct builder *b, const char *input, bool keeps, const char *output)
{
    char inputs[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%.200s router.last", input);
    gguf_builder_node_of(b, "ReduceSum", inputs, output, "keepdims", keeps);
}

/* output = which values are among the largest of the last axis; count: the name of how many. */
static void write_chosen(struct builder *b, const char *values, const char *count, const char *output)
{
    char least[TEXT], inputs[TEXT];

    gguf_builder_node(b, "TopK", "%s %s -> %s.top %s.places", values, count, output, output);
    (void)snprintf(inputs, sizeof inputs, "%.100s.top router.last", output);
    (void)snprintf(least, sizeof least, "%.100s.least", output);
    gguf_builder_node_of(b, "ReduceMin", inputs, least, "keepdims", 1); /* the last of the sorted ones */
    gguf_builder_node(b, "GreaterOrEqual", "%s %s -> %s", values, least, output);
}

/* output = the chances of the experts of the best groups: those whose two best experts have the largest sums. */
static void write_groups(struct builder *b, const char *chances, const char *output)
{
    char best[TEXT], sums[TEXT], kept[TEXT];

    (void)snprintf(best, sizeof best, "%.100s.best", output);
    (void)snprintf(sums, sizeof sums, "%.100s.sums", output);
    (void)snprintf(kept, sizeof kept, "%.100s.kept", output);
    gguf_builder_node(b, "Reshape", "%s router.groups -> %s.groups", chances, output);
    gguf_builder_node(b, "TopK", "%s.groups router.two -> %s %s.pairs", output, best, output);
    sum_last(b, best, false, sums);
    write_chosen(b, sums, "router.groups_used", kept);
    gguf_builder_node(b, "Unsqueeze", "%s router.last -> %s.column", kept, output);
    gguf_builder_program(b, "Where $.column $.groups router.none > $.left;Reshape $.left router.joined > $;", output);
}

/* output = the input times the sigmoid of its best expert's logit, for the only expert of a token in Llama 4. */
static void write_share(struct builder *b, const char *router, const char *input, const char *output)
{
    const bool grouped = b->mixture.groups > 1;
    char inputs[TEXT], best[TEXT];

    if (grouped)
        gguf_builder_node(b, "Where", "%s.chosen %s router.none -> %s.reached", router, router, router);
    (void)snprintf(inputs, sizeof inputs, "%s%s router.last", router, grouped ? ".reached" : "");
    (void)snprintf(best, sizeof best, "%s.best", router);
    gguf_builder_node_of(b, "ReduceMax", inputs, best, "keepdims", 1);
    gguf_builder_node(b, "Sigmoid", "%s -> %s.sigmoid", best, best);
    gguf_builder_node(b, "Mul", "%s %s.sigmoid -> %s", input, best, output);
}

/* The logits of the router, [rows, experts], as the operators need them. Returns what the output of the experts is
 * multiplied by, or NULL; the name is in `share`. */
static const char *route(struct builder *b, const char *layer, const char *router, char share[GGUF_NAME + 16])
{
    char bias[GGUF_NAME];
    bool biased, masked;

    (void)snprintf(bias, sizeof bias, "%sexp_probs_b.bias", layer);
    biased = (b->architecture->readers & GGUF_READ_BY_ROUTED) != 0 && gguf_builder_has(b, bias);
    masked = biased || b->mixture.groups > 1;
    if (!b->mixture.sigmoid && !masked) {
        gguf_builder_node(b, "Reshape", "%s router.shape -> %s.logits", router, router);
        return NULL;
    }
    /* the chances of experts, by which they are chosen and weighted, and their logarithms */
    gguf_builder_node(b, b->mixture.sigmoid ? "Sigmoid" : "Softmax", "%s -> %s.chances", router, router);
    gguf_builder_node(b, "Log", "%s.chances -> %s.logs", router, router);
    if (biased) {
        gguf_builder_vector(b, bias, b->mixture.count);
        gguf_builder_node(b, "Add", "%s.chances %s -> %s.biased", router, bias, router);
    }
    if (masked || b->mixture.keeps_shares) {
        char chances[TEXT], left[TEXT], chosen[TEXT];

        (void)snprintf(chances, sizeof chances, "%s.%s", router, biased ? "biased" : "chances");
        (void)snprintf(left, sizeof left, "%s.left", router);
        (void)snprintf(chosen, sizeof chosen, "%s.chosen", router);
        if (b->mixture.groups > 1)
            write_groups(b, chances, left);
        write_chosen(b, b->mixture.groups > 1 ? left : chances, "router.used", chosen);
    }
    if (masked)
        gguf_builder_node(b, "Where", "%s.chosen %s.logs router.none -> %s.masked", router, router, router);
    gguf_builder_node(b, "Reshape", "%s.%s router.shape -> %s.logits", router, masked ? "masked" : "logs", router);
    if (!b->mixture.keeps_shares)
        return NULL;
    /* The operator normalizes the shares of the chosen experts, whose sum is given back. */
    (void)snprintf(bias, sizeof bias, "%.40s.kept", router);
    gguf_builder_node(b, "Where", "%s.chosen %s.chances router.zero -> %s", router, router, bias);
    (void)snprintf(share, GGUF_NAME + 16, "%s.share", router);
    sum_last(b, bias, true, share);
    return share;
}

void gguf_write_mixture(struct builder *b, const char *layer, const char *input, const char *output)
{
    struct gguf_experts experts = { .gate = stack_of(b, layer, "gate", b->width, b->mixture.hidden),
                                    .up = stack_of(b, layer, "up", b->width, b->mixture.hidden),
                                    .down = stack_of(b, layer, "down", b->mixture.hidden, b->width),
                                    .gate_bias = biases_of(b, layer, "gate", b->mixture.hidden),
                                    .up_bias = biases_of(b, layer, "up", b->mixture.hidden),
                                    .down_bias = biases_of(b, layer, "down", b->width),
                                    .used = b->mixture.used };
    char router[GGUF_NAME], gate[GGUF_NAME], logits[GGUF_NAME + 8], share[GGUF_NAME + 16];
    char sum[TEXT], product[TEXT], common[TEXT];
    const char *factor;
    bool shared, gated;

    (void)snprintf(router, sizeof router, "%sffn_gate_inp", layer);
    (void)snprintf(logits, sizeof logits, "%s.logits", router);
    (void)snprintf(gate, sizeof gate, "%sffn_gate_shexp.weight", layer);
    shared = gguf_builder_has(b, gate) || b->architecture->latent || b->architecture->llama4 ||
             gguf_find(b->gguf, GGUF_SHARED_HIDDEN) != NULL;
    gguf_builder_linear(b, router, b->width, b->mixture.count, 0, b->mixture.count, input, router);
    factor = route(b, layer, router, share);
    if (b->architecture->llama4) {
        (void)snprintf(share, sizeof share, "%s.share", router);
        write_share(b, router, input, share);
    }
    experts.normalizes = !b->mixture.keeps_shares || factor != NULL;
    (void)snprintf(sum, sizeof sum, "%s%s", output, shared ? ".chosen" : "");
    (void)snprintf(product, sizeof product, "%.100s%s%s", sum, b->mixture.share_scale != 0 ? ".small" : "",
                   factor != NULL ? ".equal" : "");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_experts(b->gguf, &experts, b->architecture->llama4 ? share : input, logits,
                                             product, b->out, b->gguf->diag);
    if (factor != NULL)
        gguf_builder_node(b, "Mul", "%s %s -> %.100s%s", product, factor, sum,
                          b->mixture.share_scale != 0 ? ".small" : "");
    if (b->mixture.share_scale != 0)
        gguf_builder_node(b, "Mul", "%.100s.small router.scale -> %s", sum, sum);
    if (!shared)
        return;
    (void)snprintf(gate, sizeof gate, "%sffn_gate_inp_shexp.weight", layer);
    gated = gguf_builder_has(b, gate);
    (void)snprintf(common, sizeof common, "%sffn_shexp%s", layer, gated ? ".whole" : "");
    gguf_builder_gated_network(b, layer, "_shexp", b->mixture.shared_hidden, input, common);
    if (gated) {
        gguf_builder_vector(b, gate, b->width);
        gguf_builder_node(b, "Unsqueeze", "%s axis_one -> %s.column", gate, gate);
        gguf_builder_node(b, "MatMul", "%s %s.column -> %s.logit", input, gate, gate);
        gguf_builder_node(b, "Sigmoid", "%s.logit -> %s.share", gate, gate);
        gguf_builder_node(b, "Mul", "%s %s.share -> %sffn_shexp", common, gate, layer);
    }
    gguf_builder_node(b, "Add", "%s %sffn_shexp -> %s", sum, layer, output);
}
