/* Convolutions and matrix multiplications: the choice among the kernels of the table. */
#include "cpu/choice/machine.h"
#include "inlay/extensions.h"
#include "cpu/weights/winograd_accuracy.h"

/* A layer may take up to this many times the time of its best kernel if that avoids a second copy of packed weights.
 * KERNEL_WORTH_A_PACK is for convolutions, KERNEL_WORTH_A_MATRIX for matrix multiplications. */
static const double KERNEL_WORTH_A_PACK = 1.25, KERNEL_WORTH_A_MATRIX = 1.5;

uint32_t kernel_find(const char *name)
{
    for (uint32_t k = 0; k < KERNEL_COUNT; k++)
        if (strcmp(kernel_table[k].name, name) == 0)
            return k;
    return KERNEL_COUNT;
}

static void insert(kernel_choice *choice, uint32_t at, uint8_t kernel, double ns)
{
    for (uint32_t i = choice->count; i > at; i--) {
        choice->kernel[i] = choice->kernel[i - 1];
        choice->ns[i] = choice->ns[i - 1];
    }
    choice->kernel[at] = kernel;
    choice->ns[at] = ns;
    choice->count++;
}

static void remove_candidate(kernel_choice *choice, uint32_t at)
{
    choice->count--;
    for (uint32_t i = at; i < choice->count; i++) {
        choice->kernel[i] = choice->kernel[i + 1];
        choice->ns[i] = choice->ns[i + 1];
    }
}

static void move(kernel_choice *choice, uint32_t from, uint32_t to)
{
    uint8_t kernel = choice->kernel[from];
    double ns = choice->ns[from];

    remove_candidate(choice, from);
    insert(choice, to, kernel, ns);
}

static void move_to_front(kernel_choice *choice, uint32_t at)
{
    move(choice, at, 0);
}

/* Keeps only the kernels that satisfy precision `strict`, if there are any. */
static void keep_strict(kernel_choice *choice)
{
    kernel_choice strict = *choice;

    strict.count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        if (kernel_table[choice->kernel[i]].is_strict)
            insert(&strict, strict.count, choice->kernel[i], choice->ns[i]);
    if (strict.count == 0)
        return;
    if (strict.count < choice->count && choice->why == NULL)
        strict.why = "precision strict needs short summation chains";
    *choice = strict;
}

/* Ranks the kernels by their models of time. */
static void rank_by_model(cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_choice *choice)
{
    const kernel_machine machine = kernel_machine_of(build->state->host);
    const double threads = build->instance->threads > 0 ? build->instance->threads : 1;

    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        const char *why = NULL;
        uint32_t at = 0;
        double ns;

        if ((k >= KERNEL_PACKED) != layer->product)
            continue;
        if (!kernel_table[k].runs(build, group, layer, &why)) {
            choice->why = why != NULL ? why : choice->why;
            continue;
        }
        ns = kernel_layer_mean_ns(build, group, layer, k, &machine);
        choice->expected_ns[k] = kernel_layer_ns(build, group, layer, k, &machine, threads);
        while (at < choice->count && choice->ns[at] <= ns)
            at++;
        insert(choice, at, k, ns);
    }
    if (build->state->strict)
        keep_strict(choice);
    choice->source = choice->count > 1 ? KERNEL_BY_MODEL : KERNEL_ONLY;
}

static double timing(const cpu_build *build, const uint64_t key[2])
{
    if (build->attempt != NULL)
        return build->attempt->find(build->attempt->ctx, key);
    return build->state->timings->find(build->state->host->ctx, build->compiled->timings, key,
                                       sizeof(kernel_key_words));
}

/* Ranks the kernels by measured times if at least two were measured. Kernels without a time follow. */
static void rank_by_time(const cpu_build *build, kernel_choice *choice)
{
    kernel_choice timed = *choice;
    bool left[KERNEL_COUNT] = { false };
    uint32_t known = 0;

    if (build->attempt == NULL && build->compiled->timings == NULL)
        return;
    timed.count = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        uint64_t word[2];
        uint32_t at = 0;
        double ns;

        kernel_key(choice, choice->kernel[i], word);
        ns = timing(build, word);
        left[i] = ns < 0;
        if (ns < 0)
            continue;
        while (at < timed.count && timed.ns[at] <= ns)
            at++;
        insert(&timed, at, choice->kernel[i], ns);
        known++;
    }
    if (known < 2)
        return;
    for (uint32_t i = 0; i < choice->count; i++)
        if (left[i])
            insert(&timed, timed.count, choice->kernel[i], choice->ns[i]);
    timed.source = KERNEL_BY_TIME;
    *choice = timed;
}

/* Option pack_bytes: prefers the kernels that kernel_limit_packs() does not refuse. */
static void rank_by_memory(const cpu_build *build, const kernel_layer *layer, kernel_choice *choice)
{
    const uint32_t constant = build->compiled->values[build->op->in[1]].constant;
    uint32_t fine = 0, refused = constant != INLAY_NONE ? build->compiled->constants[constant].refused_points : 0;

    if (layer->product || refused == 0)
        return;
    for (uint32_t i = 0; i < choice->count; i++) {
        const int64_t points = kernel_table[choice->kernel[i]].points;

        if (points != 0 && (refused & 1u << points) != 0)
            continue;
        if (i > 0 && fine == 0)
            choice->why = "by option pack_bytes, larger weights would save too little time for their memory";
        move(choice, i, fine++);
    }
}

/* Prefers the kernel that the weights are already packed for, if that costs little time. Layers share weights in
 * detector heads that run on several image sizes, and in instances for different sequence lengths. One pack for each
 * would take several times the memory of the weights. */
static void share_pack(const cpu_build *build, kernel_choice *choice)
{
    const double worth = choice->kernel[0] >= KERNEL_PACKED ? KERNEL_WORTH_A_MATRIX : KERNEL_WORTH_A_PACK;
    const uint32_t kernel = kernel_packs_find(build);

    for (uint32_t i = 0;
         choice->source == KERNEL_BY_MODEL && i < choice->count && choice->ns[i] <= worth * choice->ns[0]; i++) {
        if (choice->kernel[i] != kernel)
            continue;
        if (i > 0) {
            move_to_front(choice, i);
            choice->why = "its weights are already packed for this kernel, for another layer or shape";
        }
        return;
    }
}

/* Option reproducible: one fixed kernel for each kind of layer, independent of its shape. Kernels that are not listed
 * rank behind these. */
static void rank_by_kind(kernel_choice *choice)
{
    static const uint8_t kinds[] = {
        KERNEL_PACKED, KERNEL_BATCHED, KERNEL_DEPTHWISE, KERNEL_TILES, KERNEL_GROUPS,
    };

    for (size_t k = 0; k < sizeof kinds; k++)
        for (uint32_t i = 0; i < choice->count; i++)
            if (choice->kernel[i] == kinds[k]) {
                move_to_front(choice, i);
                choice->why = "option reproducible takes the same kernel for all shapes";
                choice->source = choice->count > 1 ? KERNEL_BY_OPTION : KERNEL_ONLY;
                return;
            }
}

/* Checks that the error of the first candidate is within its bound. Removes the candidate otherwise. */
static inlay_status check_error(cpu_build *build, const kernel_layer *layer, kernel_choice *choice, bool *out_fine)
{
    const uint8_t kernel = choice->kernel[0];
    const uint32_t constant = build->compiled->values[build->op->in[1]].constant;
    const winograd_accuracy **accuracy = &choice->accuracies[kernel];
    inlay_status status = INLAY_OK;
    tensor_layout weights = layer->weights;

    *out_fine = kernel_table[kernel].points == 0;
    if (*out_fine)
        return INLAY_OK;
    if (kernel_table[kernel].points == FFT_POINTS)
        kernel_filters(&layer->window, &weights);
    INLAY_TRY(cpu_constant_accuracy(build->compiled, &build->compiled->constants[constant], &weights,
                                    kernel_table[kernel].points, kernel_table[kernel].measure, accuracy, build->diag));
    *out_fine = winograd_is_accurate(build->state, *accuracy);
    if (*out_fine)
        return INLAY_OK;
    remove_candidate(choice, 0);
    choice->moved = false;
    choice->source = choice->count < 2                    ? KERNEL_ONLY
                     : choice->source == KERNEL_BY_OPTION ? KERNEL_BY_MODEL
                                                          : choice->source;
done:
    return status;
}

/* Removes the first candidates until one is accurate enough. */
static inlay_status drop_inaccurate(cpu_build *build, const kernel_layer *layer, kernel_choice *choice)
{
    inlay_status status = INLAY_OK;
    bool fine = false;

    while (!fine && choice->count > 0)
        INLAY_TRY(check_error(build, layer, choice, &fine));
done:
    return status;
}

/* True if the layer takes the fastest kernel; false if it takes a kernel in order to time it. */
static bool takes_fastest(const cpu_build *build)
{
    return build->attempt == NULL || build->attempt->find != NULL;
}

static void rank(cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_choice *choice)
{
    *choice = (kernel_choice){ .op = group->op };
    rank_by_model(build, group, layer, choice);
    if (choice->count < 2)
        return;
    kernel_layer_key(build, group, layer, choice->key);
    if (takes_fastest(build))
        rank_by_time(build, choice);
}

inlay_status kernel_rank(cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_choice *out_choice)
{
    rank(build, group, layer, out_choice);
    return drop_inaccurate(build, layer, out_choice);
}

static inlay_status choose(cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_choice *choice)
{
    inlay_status status = INLAY_OK;

    rank(build, group, layer, choice);
    if (choice->count < 2)
        return INLAY_OK;
    if (build->state->reproducible && build->state->kernel == KERNEL_COUNT)
        rank_by_kind(choice);
    else if (takes_fastest(build)) {
        INLAY_TRY(drop_inaccurate(build, layer, choice));
        rank_by_memory(build, layer, choice);
        share_pack(build, choice);
    } else if (build->attempt->order < choice->count &&
               choice->ns[build->attempt->order] < KERNEL_PLAUSIBLE * choice->ns[0]) {
        choice->moved = build->attempt->order > 0;
        move_to_front(choice, build->attempt->order);
    }
    for (uint32_t i = 0; build->state->kernel != KERNEL_COUNT && i < choice->count; i++) {
        if (choice->kernel[i] != build->state->kernel)
            continue;
        move_to_front(choice, i);
        choice->source = KERNEL_BY_OPTION;
        break;
    }
done:
    return status;
}

inlay_status kernel_remember(cpu_build *build, const kernel_choice *choice)
{
    inlay_instance *instance = build->instance;

    if (!cpu_scratch_grow(instance->memory, &instance->choices, instance->choice_count, &build->choice_capacity,
                          sizeof *instance->choices))
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    instance->choices[instance->choice_count++] = *choice;
    return INLAY_OK;
}

inlay_status kernel_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    inlay_status status = INLAY_OK;
    kernel_choice choice;

    INLAY_TRY(choose(build, group, layer, &choice));
    for (;;) {
        bool done = false;

        INLAY_TRY(drop_inaccurate(build, layer, &choice));
        if (choice.count == 0)
            break;
        INLAY_TRY(kernel_table[choice.kernel[0]].lower(build, group, layer, &done));
        if (done) {
            if (build->attempt == NULL)
                kernel_packs_note(build, choice.kernel[0]);
            return kernel_remember(build, &choice);
        }
        remove_candidate(&choice, 0);
        choice.source = choice.count > 1 ? choice.source : KERNEL_ONLY;
    }
    status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': this provider has no kernel for this %s",
                        build->op->name, layer->product ? "product" : "convolution");
done:
    return status;
}
