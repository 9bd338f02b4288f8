/* Runs on separate threads. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* A run on a separate thread. The names and the array of inputs are copied. The values, the array of outputs and the
 * run options belong to the program, which keeps them until the callback is called. */
typedef struct async_run {
    OrtSession *session;
    const OrtRunOptions *options;
    const char **input_names, **output_names;
    const OrtValue **inputs;
    OrtValue **outputs;
    size_t input_count, output_count;
    RunAsyncCallbackFn callback;
    void *user;
} async_run;

static void free_async(async_run *run)
{
    for (size_t i = 0; run->input_names != NULL && i < run->input_count; i++)
        free((char *)(uintptr_t)run->input_names[i]);
    for (size_t i = 0; run->output_names != NULL && i < run->output_count; i++)
        free((char *)(uintptr_t)run->output_names[i]);
    free(run->input_names);
    free(run->output_names);
    free(run->inputs);
    free(run);
}

static void *run_async(void *user)
{
    async_run *run = user;
    OrtStatus *status = ort_Run(run->session, run->options, run->input_names, run->inputs, run->input_count,
                                run->output_names, run->output_count, run->outputs);

    INLAY_CHECK(run->callback != NULL);
    run->callback(run->user, status == NULL ? run->outputs : NULL, status == NULL ? run->output_count : 0, status);
    free_async(run);
    return NULL;
}

OrtStatus *ort_RunAsync(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
                        const OrtValue *const *input, size_t input_len, const char *const *output_names,
                        size_t output_names_len, OrtValue **output, RunAsyncCallbackFn run_async_callback,
                        void *user_data)
{
    pthread_attr_t attributes;
    pthread_t thread;
    async_run *run;
    bool ok;

    ORT_NEED(session);
    ORT_NEED(run_async_callback);
    ORT_NEED(output);
    if (input_len > 0) {
        ORT_NEED(input_names);
        ORT_NEED(input);
    }
    if (output_names_len > 0)
        ORT_NEED(output_names);
    for (size_t i = 0; i < input_len; i++)
        ORT_NEED(input_names[i]);
    for (size_t i = 0; i < output_names_len; i++)
        ORT_NEED(output_names[i]);
    run = calloc(1, sizeof *run);
    if (run == NULL)
        return ort_no_memory();
    *run = (async_run){ .session = session,
                        .options = run_options,
                        .outputs = output,
                        .input_count = input_len,
                        .output_count = output_names_len,
                        .callback = run_async_callback,
                        .user = user_data };
    run->input_names = calloc(input_len + 1, sizeof(char *));
    run->output_names = calloc(output_names_len + 1, sizeof(char *));
    run->inputs = calloc(input_len + 1, sizeof(OrtValue *));
    ok = run->input_names != NULL && run->output_names != NULL && run->inputs != NULL;
    for (size_t i = 0; ok && i < input_len; i++) {
        run->inputs[i] = input[i];
        run->input_names[i] = strdup(input_names[i]);
        ok = run->input_names[i] != NULL;
    }
    for (size_t i = 0; ok && i < output_names_len; i++)
        ok = (run->output_names[i] = strdup(output_names[i])) != NULL;
    if (ok && pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        ok = pthread_create(&thread, &attributes, run_async, run) == 0;
        (void)pthread_attr_destroy(&attributes);
    }
    if (!ok) {
        free_async(run);
        return ort_fail(ORT_FAIL, "no memory or no thread for RunAsync");
    }
    return NULL;
}
