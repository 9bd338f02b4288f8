/* Inputs and outputs that stay bound between runs. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

typedef struct bound_output {
    uint32_t index;
    bool fixed;      /* value was given by BindOutput */
    OrtValue *value; /* the bound value, or the output of the last run */
} bound_output;

struct OrtIoBinding {
    OrtSession *session;
    ort_feed *inputs; /* [input_count] each holds a reference */
    bound_output *outputs;
    size_t input_count, output_count;
};

OrtStatus *ort_CreateIoBinding(OrtSession *session, OrtIoBinding **out)
{
    ORT_NEED(session);
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    (*out)->session = session;
    return NULL;
}

void ort_ClearBoundInputs(OrtIoBinding *binding_ptr)
{
    for (size_t i = 0; i < binding_ptr->input_count; i++)
        ort_ReleaseValue((OrtValue *)(uintptr_t)binding_ptr->inputs[i].value);
    binding_ptr->input_count = 0;
}

void ort_ClearBoundOutputs(OrtIoBinding *binding_ptr)
{
    for (size_t i = 0; i < binding_ptr->output_count; i++)
        ort_ReleaseValue(binding_ptr->outputs[i].value);
    binding_ptr->output_count = 0;
}

void ort_ReleaseIoBinding(OrtIoBinding *binding)
{
    if (binding == NULL)
        return;
    ort_ClearBoundInputs(binding);
    ort_ClearBoundOutputs(binding);
    free(binding->inputs);
    free(binding->outputs);
    free(binding);
}

OrtStatus *ort_BindInput(OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr)
{
    uint32_t index;
    size_t at = 0;

    ORT_NEED(binding_ptr);
    ORT_NEED(val_ptr);
    ORT_NEED(name);
    ORT_TRY(ort_session_ready(binding_ptr->session));
    index = inlay_session_find_input(binding_ptr->session->session, name);
    if (index == INLAY_NONE)
        return ort_fail(ORT_FAIL, "Failed to find input name in the mapping: %s", name);
    while (at < binding_ptr->input_count && binding_ptr->inputs[at].index != index)
        at++;
    if (at == binding_ptr->input_count) {
        if (!ORT_GROW(binding_ptr->inputs, at))
            return ort_no_memory();
        binding_ptr->inputs[binding_ptr->input_count++] = (ort_feed){ index, NULL };
    }
    INLAY_CHECK(at < binding_ptr->input_count);
    (void)ort_value_ref((OrtValue *)(uintptr_t)val_ptr);
    ort_ReleaseValue((OrtValue *)(uintptr_t)binding_ptr->inputs[at].value);
    binding_ptr->inputs[at].value = val_ptr;
    return NULL;
}

static OrtStatus *bind_output(OrtIoBinding *binding, const char *name, OrtValue *value)
{
    uint32_t index;
    size_t at = 0;

    ORT_NEED(binding);
    ORT_TRY(ort_find_output(binding->session, name, &index));
    while (at < binding->output_count && binding->outputs[at].index != index)
        at++;
    if (at == binding->output_count) {
        if (!ORT_GROW(binding->outputs, at))
            return ort_no_memory();
        binding->outputs[binding->output_count++] = (bound_output){ .index = index };
    }
    INLAY_CHECK(at < binding->output_count);
    if (value != NULL)
        (void)ort_value_ref(value);
    ort_ReleaseValue(binding->outputs[at].value);
    binding->outputs[at].value = value;
    binding->outputs[at].fixed = value != NULL;
    return NULL;
}

OrtStatus *ort_BindOutput(OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr)
{
    ORT_NEED(val_ptr);
    return bind_output(binding_ptr, name, (OrtValue *)(uintptr_t)val_ptr);
}

OrtStatus *ort_BindOutputToDevice(OrtIoBinding *binding_ptr, const char *name, const OrtMemoryInfo *mem_info_ptr)
{
    ORT_NEED(mem_info_ptr);
    if (mem_info_ptr->device_type != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "memory '%s' is not host memory; outputs are stored in host memory",
                        mem_info_ptr->name);
    return bind_output(binding_ptr, name, NULL);
}

OrtStatus *ort_GetBoundOutputNames(const OrtIoBinding *binding_ptr, OrtAllocator *allocator, char **buffer,
                                   size_t **lengths, size_t *count)
{
    size_t bytes = 0, at = 0;

    ORT_NEED(binding_ptr);
    ORT_NEED(allocator);
    ORT_NEED(buffer);
    ORT_NEED(lengths);
    ORT_NEED(count);
    *buffer = NULL;
    *lengths = NULL;
    *count = 0;
    if (binding_ptr->output_count == 0)
        return NULL;
    for (size_t i = 0; i < binding_ptr->output_count; i++)
        bytes += strlen(ort_output_info(binding_ptr->session, binding_ptr->outputs[i].index).name);
    *buffer = allocator->Alloc(allocator, bytes + 1);
    *lengths = allocator->Alloc(allocator, binding_ptr->output_count * sizeof **lengths);
    if (*buffer == NULL || *lengths == NULL) {
        if (*buffer != NULL)
            allocator->Free(allocator, *buffer);
        if (*lengths != NULL)
            allocator->Free(allocator, *lengths);
        *buffer = NULL;
        *lengths = NULL;
        return ort_no_memory();
    }
    for (size_t i = 0; i < binding_ptr->output_count; i++) {
        const char *name = ort_output_info(binding_ptr->session, binding_ptr->outputs[i].index).name;

        (*lengths)[i] = strlen(name);
        memcpy(*buffer + at, name, (*lengths)[i]);
        at += (*lengths)[i];
    }
    INLAY_CHECK(at <= bytes);
    *count = binding_ptr->output_count;
    return NULL;
}

OrtStatus *ort_GetBoundOutputValues(const OrtIoBinding *binding_ptr, OrtAllocator *allocator, OrtValue ***output,
                                    size_t *output_count)
{
    ORT_NEED(binding_ptr);
    ORT_NEED(allocator);
    ORT_NEED(output);
    ORT_NEED(output_count);
    *output = NULL;
    *output_count = 0;
    if (binding_ptr->output_count == 0)
        return NULL;
    *output = allocator->Alloc(allocator, binding_ptr->output_count * sizeof **output);
    if (*output == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < binding_ptr->output_count; i++) {
        OrtValue *value = binding_ptr->outputs[i].value;

        (*output)[i] = value != NULL ? ort_value_ref(value) : NULL;
    }
    *output_count = binding_ptr->output_count;
    return NULL;
}

static OrtStatus *run_bound(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding_ptr)
{
    OrtStatus *failed;
    OrtValue **fetches;
    uint32_t *wanted;
    size_t count;

    if (binding_ptr->session != session)
        return ort_fail(ORT_INVALID_ARGUMENT, "the binding belongs to another session");
    count = binding_ptr->output_count;
    if (count == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "At least one output should be requested.");
    fetches = calloc(count, sizeof(OrtValue *));
    wanted = calloc(count, sizeof *wanted);
    if (fetches == NULL || wanted == NULL) {
        failed = ort_no_memory();
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        wanted[i] = binding_ptr->outputs[i].index;
        fetches[i] = binding_ptr->outputs[i].fixed ? binding_ptr->outputs[i].value : NULL;
    }
    failed = ort_run(session, run_options, binding_ptr->inputs, binding_ptr->input_count, wanted, fetches, count);
    for (size_t i = 0; failed == NULL && i < count; i++) {
        if (binding_ptr->outputs[i].fixed)
            continue;
        ort_ReleaseValue(binding_ptr->outputs[i].value);
        binding_ptr->outputs[i].value = fetches[i];
    }
done:
    free(fetches);
    free(wanted);
    return failed;
}

OrtStatus *ort_RunWithBinding(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding_ptr)
{
    OrtStatus *failed;

    ORT_NEED(session);
    ORT_NEED(binding_ptr);
    ORT_TRY(ort_session_enter(session));
    failed = run_bound(session, run_options, binding_ptr);
    ort_session_leave(session);
    return failed;
}
