/* Runs on threads of their own. */
#include "ort.h"
#include <stdlib.h>
#include <string.h>

/* A run on a thread of its own; names and arrays are copied, the values are the program's until it is called back. */
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

static void free_async(async_run *r)
{
    for (size_t i = 0; r->input_names != NULL && i < r->input_count; i++)
        free((char *)(uintptr_t)r->input_names[i]);
    for (size_t i = 0; r->output_names != NULL && i < r->output_count; i++)
        free((char *)(uintptr_t)r->output_names[i]);
    free(r->input_names);
    free(r->output_names);
    free(r->inputs);
    free(r);
}

static void *run_async(void *user)
{
    async_run *r = user;
    OrtStatus *status = ort_Run(r->session, r->options, r->input_names, r->inputs, r->input_count, r->output_names,
                                r->output_count, r->outputs);

    r->callback(r->user, status == NULL ? r->outputs : NULL, status == NULL ? r->output_count : 0, status);
    free_async(r);
    return NULL;
}

OrtStatus *ort_RunAsync(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
                        const OrtValue *const *input, size_t input_len, const char *const *output_names,
                        size_t output_names_len, OrtValue **output, RunAsyncCallbackFn run_async_callback,
                        void *user_data)
{
    pthread_attr_t attributes;
    pthread_t thread;
    async_run *r;
    bool ok;

    ORT_NEED(session);
    ORT_NEED(run_async_callback);
    ORT_NEED(output);
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return ort_no_memory();
    *r = (async_run){ .session = session,
                      .options = run_options,
                      .outputs = output,
                      .input_count = input_len,
                      .output_count = output_names_len,
                      .callback = run_async_callback,
                      .user = user_data };
    r->input_names = calloc(input_len + 1, sizeof(char *));
    r->output_names = calloc(output_names_len + 1, sizeof(char *));
    r->inputs = calloc(input_len + 1, sizeof(OrtValue *));
    ok = r->input_names != NULL && r->output_names != NULL && r->inputs != NULL;
    for (size_t i = 0; ok && i < input_len; i++) {
        r->inputs[i] = input[i];
        r->input_names[i] = strdup(input_names[i]);
        ok = r->input_names[i] != NULL;
    }
    for (size_t i = 0; ok && i < output_names_len; i++)
        ok = (r->output_names[i] = strdup(output_names[i])) != NULL;
    if (ok && pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        ok = pthread_create(&thread, &attributes, run_async, r) == 0;
        (void)pthread_attr_destroy(&attributes);
    }
    if (!ok) {
        free_async(r);
        return ort_fail(ORT_FAIL, "no memory or no thread for RunAsync");
    }
    return NULL;
}
