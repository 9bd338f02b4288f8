/* Plugins written without the kit, each of which breaks one rule of the headers, selected by the name of the file;
 * `inlay plugin-check` must find the defect. They offer Relu for float; a region of several is Relu of its inputs. The
 * rules:
 *
 * description and create
 *   bad_default        the default of an option is within its range
 *   bad_name           names of providers are lower-case letters, digits and _
 *   global_state       every create makes a state of its own
 *   closes_shared      destroy frees what belongs to its state alone
 *   null_option        the text of an option without a default is NULL if it is not set
 *   option_stride      options are read with their stride
 *   keeps_option       arguments of create are valid during the call
 *   open_again         a plugin that was shut down can be opened again
 * assess and cost
 *   own_limits         resident_bytes of an offer is within its max_resident_bytes
 *   refuse_code        a refusal has a code
 *   node_range         an offer names nodes of the graph
 *   flat               cost grows with the work
 *   cost_drift         cost depends on its arguments alone
 *   region_random      so does cost_region
 *   region_nan         costs are finite
 *   region_mute        a failure has a message
 * engine cache
 *   print_process      a fingerprint is the same in every process
 *   verdict_own        cache_verdict accepts the blobs that the provider wrote
 *   blob_threads       a blob serves any max_threads
 *   blob_index         a blob serves an equal region elsewhere in a graph
 *   store_null         store_begin is NULL if the host stores nothing
 *   store_order        store_write comes after store_begin
 * compile
 *   silent_error       a failure has a message
 *   status             statuses are those of status.h
 *   resident           resident_bytes is written only if it is not NULL
 *   profile            profile is NULL if no shapes are known
 *   constant_answer    answers about constants are those of inlay_compile_request
 *   progress           progress is from 0 to 1
 *   cancel_leak        what compile allocated is freed if it was cancelled
 *   cancel_ignored     compile ends with the status of poll
 *   half_region        a region computes all outputs of the request
 *   null_compiled      a successful compile returns an object
 *   keeps_request      arguments of compile are valid during the call
 * specialize
 *   value_stride       values are read with their stride
 *   plan_stride        plans of outputs are written with their stride
 *   alias_range        alias is an index of an input
 *   bounded            execute states the dims of a bounded output
 *   keeps_values       arguments of specialize are valid during the call
 *   mutates            instances share compiled, so specialize does not change it
 * execute
 *   arg_stride         arguments are read with their stride
 *   workers            the workspace has room for every worker of the loop
 *   rounds_workers     workers do not change the rounding mode
 *   lost_element       ranges of a loop cover all elements
 *   order              ranges of a loop come in any order
 *   stale_run          a run is valid during its execute
 *   thread_local       specialize and execute may run on different threads
 *   priority           later priorities and powers are taken as the default
 *   timer              signals and timers of the process are left alone
 *   offset             a buffer begins at its offset
 *   dims_write         the dims of an output are written only if it is bounded
 *   empty              elements of an empty tensor are not read
 *   aligned            inputs are aligned as the offer asked, by default to their elements
 *   instance_scratch   several threads execute one instance
 *   state_scratch      several threads execute instances of one state
 *   lock               runs of one instance do not wait for each other (a warning)
 * bind and control
 *   bind_null          execute may be called without a binding
 *   bind_stale         addresses may change between bindings
 *   bind_keeps         arguments of bind are valid during the call
 *   control_any        unknown actions are INLAY_UNSUPPORTED
 *   suspend            resume undoes suspend
 *   extension_any      extension returns NULL for unknown names
 *   extension_moves    extension returns the same table each time
 * no rule: plugin-check must pass them
 *   fair               none of the others
 *   engines            it has an engine cache
 *   binds              it has bind
 *   serial             it runs one execute at a time
 *   one_node           its offers are for regions of one node */
#include "defect.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does the plugin have an engine cache? */
static bool has_cache(void)
{
    return is("print_process") || is("verdict_own") || is("blob_threads") || is("blob_index") || is("store_null") ||
           is("store_order") || is("engines");
}

static bool has_bind(void)
{
    return is("bind_null") || is("bind_stale") || is("bind_keeps") || is("binds");
}

enum { MOST_OUTPUTS = 64, SCRATCH_FLOATS = 4096, WORKERS = 4 };

struct author {
    const inlay_host *host;
    const char *mode; /* option */
    int64_t scale;    /* option */
    bool suspended;
    float scratch[SCRATCH_FLOATS];
};

struct inlay_compiled {
    uint32_t output_count;
    uint32_t roots[MOST_OUTPUTS];  /* index of the region's input that output i is Relu of */
    uint32_t values[MOST_OUTPUTS]; /* value of output i in the graph */
    uint64_t limit;                /* elements that it computes; from the engine cache */
    const uint32_t *kept;
    int64_t counts[MOST_OUTPUTS];
};

struct inlay_instance {
    int64_t counts[MOST_OUTPUTS];
    const inlay_value_state *kept;
    float scratch[SCRATCH_FLOATS];
};

static const char *refusal_of(const inlay_graph *graph, const inlay_node_info *node)
{
    const inlay_value_info *input = inlay_graph_value(graph, node->inputs[0]);

    if (strcmp(node->domain.data, "ai.onnx") != 0 || strcmp(node->op_type.data, "Relu") != 0)
        return "only Relu is supported";
    if (input->dtype != INLAY_FLOAT || input->rank == INLAY_RANK_UNKNOWN)
        return "only floats of known rank are supported";
    if ((input->flags & INLAY_VALUE_CONSTANT) != 0)
        return "constants are not supported";
    return NULL;
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)state, (void)diag;
    for (uint32_t n = 0; n < request->graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, n);
        const char *reason = request->candidates[n] == 0 || node->input_count == 0 ? "only Relu is supported"
                                                                                   : refusal_of(request->graph, node);
        inlay_refusal refusal = { .struct_size = sizeof refusal, .node = n, .code = INLAY_REFUSE_OPERATOR };
        inlay_offer offer = { .struct_size = sizeof offer, .nodes = &n, .node_count = 1, .flags = INLAY_OFFER_MERGE };

        if (request->candidates[n] == 0)
            continue;
        refusal.text = reason;
        if (is("own_limits")) {
            offer.resident_bytes = 100;
            offer.max_resident_bytes = 10;
        } else if (is("refuse_code")) {
            refusal.code = 0;
        } else if (is("one_node")) {
            offer.max_nodes = 1;
        } else if (is("node_range")) {
            if (n > 3)
                n = request->graph->node_count + 1;
        }
        status = reason != NULL ? request->sink->refuse(request->sink->ctx, &refusal)
                                : request->sink->offer(request->sink->ctx, &offer);
    }
    return status;
}

static int64_t elements(const inlay_value_state *value)
{
    int64_t count = 1;

    for (uint32_t i = 0; value->rank != INLAY_RANK_UNKNOWN && i < value->rank; i++)
        count *= value->dims[i] >= 0 ? value->dims[i] : 1;
    return count;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);
    const struct author *author = state;
    const inlay_value_state *value =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, node->inputs[0]);

    (void)diag;
    out->flops = (double)elements(value);
    out->ns = out->flops * (double)author->scale;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    if (is("flat")) {
        out->ns = 1000;
    }
    if (is("cost_drift")) {
        static double calls;

        out->ns += calls++;
    }
    return INLAY_OK;
}

static inlay_status cost_region(void *state, const inlay_region_cost_request *request, inlay_cost *out,
                                inlay_diag *diag)
{
    (void)state, (void)diag;
    out->ns = 100.0 * request->node_count;
    if (is("region_nan")) {
        out->ns = sqrt(-out->ns);
    } else if (is("region_random")) {
        static double calls;

        out->ns += calls++;
    } else if (is("region_mute")) {
        return INLAY_INTERNAL;
    }
    return INLAY_OK;
}

/* A blob of the engine cache. */
struct blob {
    char head[8];
    uint64_t limit; /* elements that the engine computes */
};

static inlay_status fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag)
{
    static char text[32] = "author, driver 1";

    (void)state, (void)diag;
    if (is("print_process")) {
        const long process = getpid();

        memcpy(text, &process, sizeof process);
    }
    out->data = text;
    out->bytes = sizeof text;
    return INLAY_OK;
}

static inlay_status cache_verdict(void *state, inlay_cache_request *request, inlay_diag *diag)
{
    (void)state;
    if (!is("verdict_own")) {
        if (request->bytes == sizeof(struct blob) && memcmp(request->blob, "author1", 8) == 0)
            return INLAY_OK;
    }
    request->verdict = INLAY_CACHE_RECOMPILE;
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "not an engine of this version");
    return INLAY_OK;
}

static inlay_status use_cache(const inlay_compile_request *request, inlay_compiled *compiled)
{
    struct blob blob = { .head = "author1", .limit = UINT64_MAX };

    (void)compiled;
    if (request->cache_blob != NULL) {
        memcpy(&blob, request->cache_blob, sizeof blob);
        if (is("blob_threads")) {
            compiled->limit = blob.limit == request->max_threads ? UINT64_MAX : 1; /* planned for another number */
        } else if (is("blob_index")) {
            compiled->limit =
                blob.limit == request->outputs[0] ? UINT64_MAX : 1; /* takes another value for its output */
        }
        return INLAY_OK;
    }
    if (is("blob_threads")) {
        blob.limit = request->max_threads;
    } else if (is("blob_index")) {
        blob.limit = request->outputs[0];
    }
    if ((is("store_order") ? request->store_write != NULL
         : is("store_null")
             ? request->store_begin(request->ctx, sizeof blob) == INLAY_OK
             : request->store_begin != NULL && request->store_begin(request->ctx, sizeof blob) == INLAY_OK) &&
        request->store_write(request->ctx, &blob, sizeof blob) == INLAY_OK)
        (void)request->store_end(request->ctx);
    return INLAY_OK;
}

/* The input of the region that a value is Relu of. */
static uint32_t root_of(const inlay_compile_request *request, uint32_t value)
{
    for (;;) {
        for (uint32_t i = 0; i < request->input_count; i++)
            if (request->inputs[i] == value)
                return i;
        value = inlay_graph_node(request->graph, inlay_graph_value(request->graph, value)->producer)->inputs[0];
    }
}

static inlay_status check_request(const struct author *author, const inlay_compile_request *request, inlay_diag *diag)
{
    (void)author, (void)diag;
    for (uint32_t i = 0; i < request->input_count; i++)
        if ((inlay_graph_value(request->graph, request->inputs[i])->flags & INLAY_VALUE_CONSTANT) != 0)
            return inlay_fail(diag, INLAY_INTERNAL, "a constant is an input");
    if (is("one_node")) {
        if (request->node_count > 1)
            return inlay_fail(diag, INLAY_INTERNAL, "the offers allow one node only");
    } else if (is("silent_error")) {
        if (inlay_graph_value(request->graph, request->outputs[0])->rank == 3)
            return INLAY_UNSUPPORTED;
    } else if (is("status")) {
        if (inlay_graph_value(request->graph, request->outputs[0])->rank == 3)
            return inlay_fail(diag, 77, "no");
    } else if (is("keeps_option")) {
        if (author->mode != NULL && strcmp(author->mode, "plain") != 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "mode '%s' is not supported", author->mode);
    } else if (is("resident")) {
        *request->resident_bytes = 0;
    } else if (is("profile")) {
        if (elements(request->profile) > 1000000)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "too large");
    } else if (is("constant_answer")) {
        for (uint32_t i = 0; i < request->graph->value_count; i++)
            request->constants[i] = 7;
    }
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status =
        compiled == NULL ? inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory") : check_request(state, request, diag);

    if (status == INLAY_OK && request->output_count > MOST_OUTPUTS)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d outputs", MOST_OUTPUTS);
    if (is("progress")) {
        if (request->progress != NULL)
            request->progress(request->ctx, 50, "percent");
    }
    if (status == INLAY_OK && request->poll != NULL) {
        status = request->poll(request->ctx);
        if (is("cancel_leak")) {
            if (status != INLAY_OK)
                return inlay_fail(diag, status, "stopped");
        } else if (is("cancel_ignored")) {
            status = INLAY_OK;
        } else {
            if (status != INLAY_OK)
                (void)inlay_fail(diag, status, "stopped");
        }
    }
    if (status != INLAY_OK) {
        free(compiled);
        return status;
    }
    compiled->output_count = request->output_count;
    if (is("half_region")) {
        compiled->output_count -= request->output_count > 1;
    }
    compiled->limit = UINT64_MAX;
    compiled->kept = request->outputs;
    for (uint32_t i = 0; i < request->output_count; i++) {
        compiled->roots[i] = root_of(request, request->outputs[i]);
        compiled->values[i] = request->outputs[i];
    }
    if (has_cache()) {
        status = use_cache(request, compiled);
    }
    if (is("null_compiled")) {
        free(compiled);
        compiled = NULL;
    }
    *out_compiled = compiled;
    return status;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    free(compiled);
}

static _Thread_local const inlay_instance *latest;

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_instance *instance = calloc(1, sizeof *instance);

    (void)state;
    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        if (is("value_stride")) {
            instance->counts[i] = elements(&request->values[compiled->values[i]]); /* as if value_stride were fixed */
        } else {
            instance->counts[i] =
                elements(INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->values[i]));
        }
        compiled->counts[i] = instance->counts[i];
    }
    if (is("alias_range")) {
        INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, 0)->alias = request->output_count + 9;
    } else if (is("bounded")) {
        for (uint32_t i = 0; i < request->output_count; i++)
            *INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, i) =
                (inlay_output_plan){ .kind = INLAY_OUTPUT_BOUNDED,
                                     .max_bytes = (uint64_t)instance->counts[i] * sizeof(float),
                                     .alias = INLAY_NONE };
    } else if (is("plan_stride")) {
        for (uint32_t i = 0; i < request->output_count; i++)
            request->outputs[i] = (inlay_output_plan){ .alias = INLAY_NONE };
    } else if (is("workers")) {
        request->workspace_bytes = WORKERS * SCRATCH_FLOATS * sizeof(float);
    }
    instance->kept = request->values;
    latest = instance;
    *out_instance = instance;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    free(instance);
}

struct loop {
    const float *from;
    float *to;
    float *scratch; /* of the workers */
};

static void relu(const float *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] < 0 ? 0 : from[i];
}

/* In pieces, through memory that others must not use at the same time. */
static void relu_through(float *scratch, const float *from, float *to, int64_t count)
{
    for (int64_t at = 0; at < count; at += SCRATCH_FLOATS) {
        const int64_t piece = count - at < SCRATCH_FLOATS ? count - at : SCRATCH_FLOATS;

        relu(from + at, scratch, piece);
        memcpy(to + at, scratch, (size_t)piece * sizeof *to);
    }
}

static inlay_status relu_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct loop *loop = user;

    (void)worker;
    if (is("workers")) {
        relu_through(loop->scratch + (size_t)worker * SCRATCH_FLOATS, loop->from + begin, loop->to + begin,
                     end - begin);
    } else if (is("rounds_workers")) {
        if (worker > 0)
            (void)fesetround(FE_UPWARD);
        relu(loop->from + begin, loop->to + begin, end - begin);
    } else if (is("lost_element")) {
        relu(loop->from + begin, loop->to + begin, end - begin - (worker > 0));
    } else if (is("order")) {
        static int64_t next; /* as if the ranges came one after the other */

        if (begin == 0)
            next = 0;
        if (begin == next)
            relu(loop->from + begin, loop->to + begin, end - begin);
        next = end;
    } else {
        relu(loop->from + begin, loop->to + begin, end - begin);
    }
    return INLAY_OK;
}

static const inlay_tensor_arg *arg_at(const inlay_exec_args *args, const inlay_tensor_arg *list, uint32_t i)
{
    if (is("arg_stride")) {
        (void)args;
        return &list[i];
    } else {
        return INLAY_AT(inlay_tensor_arg, list, args->arg_stride, i);
    }
}

/* What execute does before it computes. */
static inlay_status begin(struct author *author, const inlay_compiled *compiled, const inlay_instance *instance,
                          const inlay_exec_args *args)
{
    (void)author, (void)compiled, (void)instance, (void)args;
    if (is("stale_run")) {
        static inlay_run *earlier;

        if (earlier != NULL)
            (void)author->host->poll(author->host->ctx, earlier);
        earlier = args->run;
    } else if (is("keeps_request")) {
        if (compiled->kept[0] == INLAY_NONE)
            return inlay_fail(args->diag, INLAY_INTERNAL, "no output");
    } else if (is("keeps_values")) {
        if (instance->kept[compiled->values[0]].dtype != INLAY_FLOAT)
            return inlay_fail(args->diag, INLAY_INTERNAL, "not a float");
    } else if (is("thread_local")) {
        if (latest == NULL)
            return inlay_fail(args->diag, INLAY_INTERNAL, "this thread has not specialized");
    } else if (is("priority")) {
        if (args->priority > INLAY_PRIORITY_HIGH || args->power > INLAY_POWER_PERFORMANCE)
            return inlay_fail(args->diag, INLAY_INVALID_ARGUMENT, "priority %u, power %u", args->priority, args->power);
    } else if (is("bind_null")) {
        if (args->binding == NULL)
            return inlay_fail(args->diag, INLAY_INTERNAL, "not bound");
    } else if (is("timer")) {
        (void)signal(SIGALRM, SIG_IGN);
        (void)alarm(1000);
    } else if (is("suspend")) {
        if (author->suspended)
            return inlay_fail(args->diag, INLAY_INTERNAL, "suspended");
    }
    return author->host->poll(author->host->ctx, args->run);
}

/* Addresses that bind has seen. */
struct inlay_binding {
    uint64_t first_input; /* 0: not known */
    const inlay_tensor_arg *kept;
};

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    struct author *author = state;
    inlay_status status = begin(author, compiled, instance, args);

    for (uint32_t i = 0; i < compiled->output_count && status == INLAY_OK; i++) {
        const inlay_tensor_arg *input = arg_at(args, args->inputs, compiled->roots[i]);
        const inlay_tensor_arg *output = arg_at(args, args->outputs, i);
        struct loop loop = { inlay_buffer_host(&input->buffer), inlay_buffer_host(&output->buffer),
                             inlay_buffer_host(&args->workspace) };
        int64_t count = instance->counts[i];

        if (is("offset")) {
            loop.from = (const float *)(uintptr_t)input->buffer.handle;
        } else if (is("bind_stale")) {
            if (args->binding != NULL && compiled->roots[i] == 0)
                loop.from = (const float *)(uintptr_t)args->binding->first_input;
        } else if (is("bind_keeps")) {
            if (args->binding != NULL && compiled->roots[i] == 0)
                loop.from = inlay_buffer_host(&args->binding->kept[0].buffer);
        } else if (is("mutates")) {
            count = compiled->counts[i];
        } else if (is("dims_write")) {
            if (output->rank > 1)
                output->dims[0] = count;
        }
        if (is("empty")) {
            if (loop.from[0] != loop.from[0] + 0 * (float)count)
                count = 0;
        } else if (is("aligned")) {
            if ((uintptr_t)loop.from % 16 != 0)
                return inlay_fail(args->diag, INLAY_INVALID_ARGUMENT, "the input is not aligned to 16 bytes");
        }
        if ((uint64_t)count > compiled->limit)
            count = (int64_t)compiled->limit;
        if (is("instance_scratch")) {
            relu_through(instance->scratch, loop.from, loop.to, count);
        } else if (is("state_scratch")) {
            relu_through(author->scratch, loop.from, loop.to, count);
        } else if (is("lock")) {
            static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

            (void)pthread_mutex_lock(&lock);
            relu(loop.from, loop.to, count);
            (void)pthread_mutex_unlock(&lock);
        } else {
            status = author->host->parallel_for(author->host->ctx, args->run, count, 64, relu_range, &loop);
        }
    }
    return status;
}

static inlay_status bind(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                         inlay_binding **out_binding, inlay_diag *diag)
{
    inlay_binding *binding = calloc(1, sizeof *binding);

    (void)state, (void)compiled, (void)instance;
    if (binding == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    binding->kept = args->inputs;
    if (args->input_count > 0)
        binding->first_input = args->inputs[0].buffer.handle + args->inputs[0].buffer.offset;
    *out_binding = binding;
    return INLAY_OK;
}

static void release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding)
{
    (void)state, (void)compiled, (void)instance;
    free(binding);
}

static inlay_status control(void *state, inlay_control_args *args, inlay_diag *diag)
{
    struct author *author = state;

    (void)diag;
    switch (args->action) {
    case INLAY_CONTROL_SUSPEND:
        author->suspended = true;
        return INLAY_OK;
    case INLAY_CONTROL_RESUME:
        if (!is("suspend")) {
            author->suspended = false;
        }
        return INLAY_OK;
    case INLAY_CONTROL_TRIM:
        return INLAY_OK;
    default:
        if (is("control_any")) {
            return INLAY_OK;
        } else {
            return inlay_fail(diag, INLAY_UNSUPPORTED, "no action %u", args->action);
        }
    }
}

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_control table = { .struct_size = sizeof table, .control = control };

    (void)state, (void)name;
    if (is("extension_any")) {
        return &table;
    } else if (is("extension_moves")) {
        static inlay_ext_control tables[16];
        static uint32_t calls;

        tables[++calls % 16] = table;
        return strcmp(name, INLAY_EXT_CONTROL) == 0 ? &tables[calls % 16] : NULL;
    } else {
        return strcmp(name, INLAY_EXT_CONTROL) == 0 ? &table : NULL;
    }
}

static inlay_option options[] = {
    { .name = "mode", .doc = "what to do", .default_value = "plain", .kind = INLAY_OPTION_STRING },
    { .name = "scale",
      .doc = "nanoseconds an element",
      .default_value = "1",
      .min = 1,
      .max = 9,
      .kind = INLAY_OPTION_INT },
    { .name = "label", .doc = "a name for messages", .kind = INLAY_OPTION_STRING },
};

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    static struct author only, *shared;
    struct author *author = is("global_state") ? &only : is("closes_shared") ? shared : NULL;

    (void)ctx;
    if (author == NULL)
        author = shared = calloc(1, sizeof *author);
    if (author == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    author->host = host;
    if (is("option_stride")) {
        author->scale = args->options[1].i;
    } else {
        author->scale = INLAY_AT(inlay_option_value, args->options, args->option_stride, 1)->i;
    }
    author->mode = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->s;
    if (is("null_option")) {
        if (strcmp(INLAY_AT(inlay_option_value, args->options, args->option_stride, 2)->s, "x") == 0)
            author->scale = 2;
    }
    *out_state = author;
    return INLAY_OK;
}

static void destroy(void *state)
{
    if (is("closes_shared"))
        memset(state, 0, sizeof(struct author));
    else if (!is("global_state"))
        free(state);
}

static inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "author",
    .description = "breaks a rule",
    .device_kind = INLAY_DEVICE_CPU,
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_stride = sizeof options[0],
    .poll_ms = 100,
    .create = create,
    .destroy = destroy,
    .assess = assess,
    .cost = cost,
    .compile = compile,
    .release_compiled = release_compiled,
    .specialize = specialize,
    .release_instance = release_instance,
    .execute = execute,
    .extension = extension,
    .cost_region = cost_region,
};
static bool closed;

static void close_plugin(void *ctx)
{
    (void)ctx;
    closed = true;
}

static inlay_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = "author",
    .version = "1.0.0",
    .build_id = "author 1.0.0",
    .providers = &provider,
    .provider_count = 1,
    .provider_stride = sizeof provider,
};

/* Provider and plugin as the defect needs them. */
static void describe(void)
{
    read_defect();
    if (is("bad_default"))
        options[1].default_value = "10";
    if (is("bad_name"))
        provider.name = "Author 1";
    if (is("serial"))
        provider.flags = INLAY_PROVIDER_SERIAL_EXECUTE;
    if (has_cache()) {
        provider.fingerprint = fingerprint;
        provider.cache_verdict = cache_verdict;
    }
    if (has_bind()) {
        provider.bind = bind;
        provider.release_binding = release_binding;
    }
    if (is("open_again"))
        plugin.shutdown = close_plugin;
}

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "made for ABI %u", INLAY_ABI_MAJOR);
    describe();
    if (is("open_again") && closed)
        return inlay_fail(diag, INLAY_INTERNAL, "closed already");
    *out_plugin = &plugin;
    return INLAY_OK;
}

INLAY_PLUGIN_NOTE("author", "author", "")
