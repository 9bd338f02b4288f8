/* inlay bundle: compiles a model into a self-contained program or library. */
#include "cli/bundle_check.h"
#include "config/options.h"
#include "model/model.h"
#include "data/scratch.h"
#include "modelkit/change.h"
#include "pipe/pipe.h"
#include "inlay/check.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char doc_bundle[] =
    "Compiles MODEL into a static, self-contained program with the runtime, the kernels that the model needs, and its "
    "weights. --library and --object create a library or an object to link, and a C header next to it.\v"
    "All sizes must be fixed: --dim fixes open dimensions, by their name or as INPUT:AXIS. --set makes an input a "
    "constant, which can decide an If at compile time. The program takes inputs as `inlay run` does, as --input "
    "NAME=FILE.npy or --input NAME=1,2,3,4; `PROGRAM --help` lists them. It runs on the providers reference and cpu, "
    "with the given precision and provider options. Supported control flow is If, Loop and Scan; data-dependent "
    "shapes, strings and sequences are refused. Pre- and post-processing stay outside: bundle the model that was "
    "given to `inlay pipe`, and pass its tensors.\n\n"
    "Examples:\n"
    "  inlay bundle model.onnx -o app\n"
    "  inlay bundle model.onnx -o app --dim batch=1 --cc musl-gcc\n"
    "  inlay bundle vad.onnx -o vad --dim input:0=1 --dim input:1=512 --set sr=16000\n"
    "  inlay bundle model.onnx -o app --for native --cc musl-gcc  # smallest size\n"
    "  inlay bundle model.onnx -o libmodel.a --library --name model\n"
    "  inlay bundle model.onnx -o model.o --object --target aarch64-linux-gnu\n"
    "  inlay bundle model.onnx -o model.wasm --target wasm32\n";

enum { MOST_DIMS = 64, MOST_MOVED = 32 };
/* cpu.pack_bytes is lowered by at least this until the weights fit. */
static const double PACKS_STEP = 0.25;
/* The default of --memory is violated only if the weights exceed both limits. */
static const double DEFAULT_MEMORY = 3, DEFAULT_MEMORY_BYTES = 16 << 20;

/* NAME=VALUE of an option that may be repeated. */
struct pairs {
    char *items[MOST_DIMS];
    uint32_t count;
};

typedef struct bundle_args {
    const char *model;
    bundle_job job;
    struct pairs dims, sets;
    char moved[MOST_MOVED][128]; /* nodes that cpu cannot run, or op:NAME */
    char moved_op[MOST_MOVED][80];
    uint32_t moved_count;
    char branch_input[128]; /* an input that selects the branch of an If, or "" */
    bool is_piped;          /* the model has steps of `inlay pipe` */
    bundle_check check;
    bool keep;
    double memory; /* limit as a multiple of the model's weights; 0: the default */
    double packs;  /* cpu.pack_bytes; 0: the session's value */
} bundle_args;

static error_t take_kind(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    bundle_args *args = field;

    (void)arg;
    if (args->job.kind != BUNDLE_PROGRAM)
        cli_refuse(state, CLI_USAGE, "--library and --object cannot be combined");
    args->job.kind = strcmp(option->name, "library") == 0 ? BUNDLE_LIBRARY : BUNDLE_OBJECT;
    return 0;
}

static error_t take_isa(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    bundle_args *args = field;

    (void)option;
    if (strcmp(arg, "avx2") != 0 && strcmp(arg, "native") != 0)
        cli_refuse(state, CLI_USAGE, "--for: expected avx2 or native, not '%s'", arg);
    args->job.isa = arg;
    return 0;
}

static error_t take_pair(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct pairs *list = field;

    if (strchr(arg, '=') == NULL || list->count == MOST_DIMS)
        cli_refuse(state, CLI_USAGE, "--%s: expected %s, not '%s'", option->name, option->arg, arg);
    list->items[list->count++] = arg;
    return 0;
}

static const cli_option options_of_bundle[] = {
    CLI_OUTPUT_OPTION(bundle_args, job.output),
    { "library", NULL, "Write a static library and a C header named FILE", CLI_CALL_ALL(take_kind) },
    { "object", NULL, "Write one object and a C header with the name of FILE", CLI_CALL_ALL(take_kind) },
    { "name", "NAME", "Prefix of the functions (default: the name of FILE)", CLI_TEXT(bundle_args, job.name) },
    { "dim", "NAME=N", "Fix an open dimension; may be repeated", CLI_CALL(take_pair, bundle_args, dims) },
    { "set", "INPUT=VALUE", "Make an input of one element a constant; may be repeated",
      CLI_CALL(take_pair, bundle_args, sets) },
    { "target", "TRIPLE",
      "x86_64-linux-gnu, aarch64-linux-gnu or wasm32 (default: this machine's).\vwasm32: FILE is a WebAssembly module; "
      "a "
      "wrapper in JavaScript and types for TypeScript are written next to it",
      CLI_TEXT(bundle_args, job.target) },
    { "separate-weights", NULL, "For wasm32: write the weights to a file next to FILE",
      CLI_SET(bundle_args, job.separate_weights) },
    { "for", "avx2|native",
      "A smaller program: without AVX-512, or for CPUs like this\v(only for those with its instruction set); each "
      "weight is stored once",
      CLI_CALL_ALL(take_isa) },
    { "size", "N",
      "Limit of the bytes of weights, as a multiple of the model's (default: 1.15).\vPacked weights are stored in the "
      "program up to this limit, and packed at each start beyond it",
      CLI_NUMBER(bundle_args, job.size, 1, 1000) },
    { "memory", "N",
      "The same of the weights that a run reads (default: 3).\vBeyond it, or 16 MiB if larger, convolutions use slower "
      "kernels with smaller weights, those with the least time saved per byte first",
      CLI_NUMBER(bundle_args, memory, 1, 1000) },
    { "rtol", "X",
      "Difference of the program's results from those of a session above which no program is written, relative to the "
      "largest element of an output (default: by its type; float: 1e-3)",
      CLI_NUMBER(bundle_args, check.rtol, 0, 1e300) },
    { "cc", "PROGRAM", "The C compiler, for instance musl-gcc (default: cc, or TRIPLE-gcc)",
      CLI_TEXT(bundle_args, job.cc) },
    { "keep", NULL, "Keep sources and objects in the folder FILE.bundle", CLI_SET(bundle_args, keep) },
    CLI_MODEL(bundle_args, model),
    { 0 },
};

/* Programs that are started here use the same instruction sets as the sessions that they are compared with. */
static void cap_program_isa(const cli_common *common)
{
    char isa[16] = "auto";
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_options_get(common->options, "isa", isa, sizeof isa, NULL, &diag) == INLAY_OK && strcmp(isa, "auto") != 0)
        (void)setenv("INLAY_ISA", isa, 1);
}

/* Writes the model with fixed sizes into the folder of the bundle. */
static inlay_status fix_sizes(bundle_args *args, const struct scratch *scratch, char *path, inlay_diag *diag)
{
    graph_model *model = NULL;
    const char *branch_input;
    inlay_status status;

    INLAY_TRY(model_load_path(args->model, NULL, &model, diag));
    for (uint32_t i = 0; i < args->dims.count; i++) {
        char *equals = strrchr(args->dims.items[i], '='), *end;
        const long long size = strtoll(equals + 1, &end, 10);

        if (end == equals + 1 || *end != '\0' || size < 1) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--dim: expected NAME=N with N >= 1, not '%s'",
                                args->dims.items[i]);
            goto done;
        }
        *equals = '\0';
        status = change_dim(model, args->dims.items[i], size, diag);
        *equals = '=';
        if (status != INLAY_OK)
            goto done;
    }
    for (uint32_t i = 0; i < args->sets.count; i++) {
        char *equals = strrchr(args->sets.items[i], '=');

        *equals = '\0';
        status = change_constant(model, args->sets.items[i], equals + 1, diag);
        *equals = '=';
        if (status != INLAY_OK)
            goto done;
    }
    args->is_piped = graph_model_opset(model, PIPE_DOMAIN) > 0 || graph_model_opset(model, PIPE_EXTENSIONS) > 0;
    branch_input = change_find_switch(model);
    (void)snprintf(args->branch_input, sizeof args->branch_input, "%s", branch_input != NULL ? branch_input : "");
    status = scratch_save(scratch, "fixed", model, false, path, diag);
done:
    graph_model_destroy(model);
    return status;
}

/* Regions of cpu need AVX2 in a program. */
static const char *providers_of(const bundle_job *job)
{
    const char *limit = bundle_limit(job);

    return limit != NULL && strcmp(limit, "baseline") == 0 ? "reference" : "cpu,reference";
}

/* Sets the session options that a bundle requires: its providers, one thread, and no choice by costs of this machine.
 */
static inlay_status set_options(cli_common *common, const char *providers, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(inlay_options_set(common->options, "providers", providers, diag));
    INLAY_TRY(inlay_options_set(common->options, "policy", "priority", diag));
    INLAY_TRY(inlay_options_set(common->options, "intra_threads", "1", diag));
    status = inlay_options_set(common->options, "cache_dir", "", diag);
done:
    return status;
}

static inlay_status bundle_once(bundle_args *args, cli_common *common, const char *model, inlay_diag *diag)
{
    inlay_session *session = NULL;
    bundle_collection collection = { 0 };
    inlay_status status;

    INLAY_TRY(cli_open(common, model, &session, diag));
    INLAY_TRY(bundle_collect(session, &collection, diag));
    INLAY_TRY(bundle_make(&args->job, &collection, diag));
    INLAY_TRY(bundle_check_run(common, &args->job, session, &args->check, diag));
    status = bundle_publish(&args->job, diag);
done:
    bundle_collection_deinit(&collection);
    inlay_session_destroy(session);
    return status;
}

/* The limit of memory_bytes as a multiple of the constants. */
static double memory_limit(const bundle_args *args)
{
    const double constants = (double)args->job.made.constant_bytes;

    if (args->memory > 0)
        return args->memory;
    return DEFAULT_MEMORY * constants < DEFAULT_MEMORY_BYTES ? DEFAULT_MEMORY_BYTES / constants : DEFAULT_MEMORY;
}

static double memory_excess(const bundle_args *args)
{
    return args->job.made.constant_bytes == 0
               ? 0
               : (double)args->job.made.memory_bytes / (double)args->job.made.constant_bytes - memory_limit(args);
}

/* Accepts the kernels of the current attempt, or sets the limit of packed weights for the next one. A bundle_job accept
 * callback. */
static bool accept_memory(void *user)
{
    bundle_args *args = user;
    const double excess = memory_excess(args);

    if (excess <= 0 || args->packs == 1) /* 1: there are no kernels with smaller weights */
        return true;
    if (args->packs == 0) /* kernels also read originals, which the option does not count */
        args->packs = memory_limit(args);
    else
        args->packs -= excess > PACKS_STEP ? excess : PACKS_STEP;
    args->packs = args->packs > 1 ? args->packs : 1;
    return false;
}

static inlay_status limit_packs(const bundle_args *args, cli_common *common, inlay_diag *diag)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.9g", args->packs);
    return inlay_options_set(common->options, "cpu.pack_bytes", text, diag);
}

/* Writes NAME=cpu for option forbid, with characters of patterns escaped. */
static void write_rule(const char *name, char *rule)
{
    if (strncmp(name, "op:", 3) == 0)
        *rule++ = '\\';
    for (; *name != '\0'; name++) {
        if (strchr("*?[\\", *name) != NULL)
            *rule++ = '\\';
        *rule++ = *name;
    }
    memcpy(rule, "=cpu", sizeof "=cpu");
}

/* Forbids cpu for a node that it cannot run, so that reference runs the node. The second node of an operator forbids
 * cpu for all nodes of the operator. */
static inlay_status move_node(bundle_args *args, cli_common *common, const inlay_diag *why, inlay_diag *diag)
{
    char *text = args->moved[args->moved_count < MOST_MOVED ? args->moved_count : 0];
    char rule[2 * sizeof args->moved[0] + sizeof "\\=cpu"];
    bool again = false;

    if (args->moved_count == MOST_MOVED || args->job.made.node[0] == '\0')
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", why->text);
    for (uint32_t i = 0; i < args->moved_count; i++)
        again |= strcmp(args->moved_op[i], args->job.made.op) == 0;
    (void)snprintf(args->moved_op[args->moved_count], sizeof args->moved_op[0], "%s", args->job.made.op);
    if (again) {
        (void)snprintf(text, sizeof args->moved[0], "op:%s", args->job.made.op);
        (void)snprintf(rule, sizeof rule, "op:%s=cpu", args->moved_op[args->moved_count]);
    } else {
        (void)snprintf(text, sizeof args->moved[0], "%s", args->job.made.node);
        write_rule(text, rule);
    }
    args->moved_count++;
    INLAY_CHECK(args->moved_count <= MOST_MOVED);
    /* In addition to the earlier ones. inlay_options_set() would split a name with a comma. */
    return options_set_as(common->options, "forbid", rule, INLAY_SOURCE_PROGRAM, "set by inlay bundle", diag);
}

static inlay_status bundle(bundle_args *args, cli_common *common, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    struct scratch scratch = { .dir = "" };
    char path[PATH_MAX];
    inlay_status status;

    args->job.uniform = strcmp(options_text(common->options, OPTION_reproducible), "cpu") == 0;
    INLAY_TRY(scratch_make(args->job.output, NULL, &scratch, diag));
    INLAY_TRY(fix_sizes(args, &scratch, path, diag));
    INLAY_TRY(set_options(common, providers_of(&args->job), diag));
    args->job.dir = scratch.dir;
    args->job.progress = common->quiet ? NULL : cli_progress;
    args->job.accept = accept_memory;
    args->job.user = args;
    while ((status = bundle_once(args, common, path, &why)) == INLAY_UNSUPPORTED &&
           (args->job.made.declined || args->job.made.node[0] != '\0'))
        INLAY_TRY(args->job.made.declined ? limit_packs(args, common, diag) : move_node(args, common, &why, diag));
    if (status != INLAY_OK)
        *diag = why;
    if (status == INLAY_UNSUPPORTED && args->is_piped)
        status = inlay_fail(diag, status,
                            "pre- and post-processing stay outside of a bundle: bundle the model that was given to "
                            "`inlay pipe`, and pass its tensors (%s)",
                            why.text);
    if (status == INLAY_SHAPE_MISMATCH && args->branch_input[0] != '\0')
        status =
            inlay_fail(diag, status, "%s (input '%s' selects a branch of an If: --set %s=VALUE keeps only that one)",
                       why.text, args->branch_input, args->branch_input);
done:
    if (args->keep)
        (void)fprintf(stderr, "kept folder: %s\n", scratch.dir);
    else
        scratch_remove(&scratch);
    return status;
}

static int print_result(const bundle_args *args, const cli_common *common)
{
    const bundle_job *job = &args->job;

    cli_progress_clear();
    if (!common->json) {
        (void)printf("%s: %llu bytes, of which weights %llu; arena %llu bytes\n", job->output,
                     (unsigned long long)job->made.file_bytes, (unsigned long long)job->made.data_bytes,
                     (unsigned long long)job->made.arena_bytes);
        if (job->made.memory_bytes > 0)
            (void)printf("weights that a run reads: %llu bytes, %.2f times the model's%s\n",
                         (unsigned long long)job->made.memory_bytes,
                         (double)job->made.memory_bytes /
                             (double)(job->made.constant_bytes + (job->made.constant_bytes == 0)),
                         memory_excess(args) > 0 ? ", more than --memory: no kernels with smaller weights exist"
                         : args->packs > 0       ? ": some convolutions use slower kernels because of --memory"
                                                 : "");
        if (job->made.start_count > 0)
            (void)printf("%u of %u packed weights are packed at each start; a larger --size stores more of them in the "
                         "program\n",
                         job->made.start_count, job->made.start_count + job->made.pack_count);
        if (!args->check.ran)
            (void)printf("not verified: this machine cannot run programs for %s\n", job->target);
        else if (args->check.same)
            (void)printf("verified with random inputs: bitwise equal to `inlay run --providers %s --policy priority`\n",
                         providers_of(job));
        else
            (void)printf(
                "verified with random inputs: differs by up to %.1e of the largest result from a session with the same "
                "providers, which uses other kernels on this CPU\n",
                args->check.largest);
        for (uint32_t i = 0; i < args->moved_count; i++)
            (void)printf("%s runs on the provider reference: cpu has no kernel for it\n", args->moved[i]);
        return CLI_OK;
    }
    return cli_print_json(
        common,
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:b, s:f}", "output", job->output, "bytes",
                  (json_int_t)job->made.file_bytes, "weight_bytes", (json_int_t)job->made.data_bytes, "arena_bytes",
                  (json_int_t)job->made.arena_bytes, "memory_bytes", (json_int_t)job->made.memory_bytes, "packs",
                  (int)job->made.pack_count, "packs_at_start", (int)job->made.start_count, "tried", args->check.ran,
                  "same", args->check.ran && args->check.same, "difference", args->check.largest),
        CLI_OK);
}

int cmd_bundle(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_bundle, options_of_bundle, NULL };
    static bundle_args args;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    args.job.target = bundle_native_target();
    args.job.size = 1.15;
    args.check.rtol = -1;
    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    cap_program_isa(&common);
    code = bundle(&args, &common, &diag) == INLAY_OK ? print_result(&args, &common) : cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return code;
}
