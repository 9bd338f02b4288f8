/* Server reflection: which services there are, and the descriptors of their messages. */
#include "reflection.pb-c.h"
#include "inlay/check.h"
#include "serve/grpc/grpc_internal.h"
#include <stdlib.h>
#include <string.h>

/* A FileDescriptorSet of the services and all that they import; generated. */
extern const uint8_t serve_descriptors[];
extern const size_t serve_descriptors_bytes;

/* Whether `symbol` is `scope`, a dot and `name`. */
static bool is_joined(const char *symbol, const char *scope, const char *name)
{
    size_t bytes = strlen(scope);

    return strncmp(symbol, scope, bytes) == 0 && symbol[bytes] == '.' && strcmp(symbol + bytes + 1, name) == 0;
}

static bool has_name(const char *symbol, const char *scope, Inference__DescribedName *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_joined(symbol, scope, names[i]->name))
            return true;
    return false;
}

static bool has_symbol(const Inference__DescribedFile *file, const char *symbol)
{
    char scope[256];

    for (size_t i = 0; i < file->n_service; i++) {
        const Inference__DescribedService *service = file->service[i];

        (void)snprintf(scope, sizeof scope, "%s.%s", file->package, service->name);
        if (strcmp(scope, symbol) == 0 || has_name(symbol, scope, service->method, service->n_method))
            return true;
    }
    return has_name(symbol, file->package, file->message_type, file->n_message_type) ||
           has_name(symbol, file->package, file->enum_type, file->n_enum_type);
}

/* A requested file, by its name or by one of its symbols. */
static bool is_wanted(const Inference__DescribedFile *file, const Inference__ReflectionRequest *request)
{
    if (request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME)
        return strcmp(file->name, request->file_by_filename) == 0;
    return has_symbol(file, request->file_containing_symbol);
}

static void reply_error(Inference__ReflectionReply *reply, Inference__ErrorReply *error, int code, const char *text)
{
    reply->message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_ERROR_RESPONSE;
    reply->error_response = error;
    error->error_code = code;
    error->error_message = (char *)(uintptr_t)text;
}

/* Appends the names of the file's services. */
static bool add_services(const Inference__DescribedFile *file, Inference__ListServiceReply *list)
{
    for (size_t i = 0; i < file->n_service; i++) {
        Inference__ServiceReply *service = malloc(sizeof *service);

        if (service == NULL || !LIST_GROW(list->service, list->n_service)) {
            free(service);
            return false;
        }
        inference__service_reply__init(service);
        list->service[list->n_service++] = service;
        if (asprintf(&service->name, "%s.%s", file->package, file->service[i]->name) < 0) {
            list->n_service--;
            free(service);
            return false;
        }
    }
    return true;
}

static void free_services(Inference__ListServiceReply *list)
{
    for (size_t i = 0; i < list->n_service; i++) {
        free(list->service[i]->name);
        free(list->service[i]);
    }
    free(list->service);
}

/* Finds the file, or adds the services of all files to the list. false: out of memory. */
static bool search(const Inference__DescribedSet *set, const Inference__ReflectionRequest *request,
                   const ProtobufCBinaryData **out_file, Inference__ListServiceReply *list)
{
    bool lists = request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES,
         good = true;

    for (size_t i = 0; good && *out_file == NULL && i < set->n_file; i++) {
        Inference__DescribedFile *file = inference__described_file__unpack(NULL, set->file[i].len, set->file[i].data);

        if (file == NULL)
            return false;
        if (lists)
            good = add_services(file, list);
        else if (is_wanted(file, request))
            *out_file = &set->file[i];
        inference__described_file__free_unpacked(file, NULL);
    }
    return good;
}

static void answer(struct call *call, Inference__ReflectionRequest *request, const Inference__DescribedSet *set)
{
    Inference__ReflectionReply reply = INFERENCE__REFLECTION_REPLY__INIT;
    Inference__FileDescriptorReply files = INFERENCE__FILE_DESCRIPTOR_REPLY__INIT;
    Inference__ListServiceReply list = INFERENCE__LIST_SERVICE_REPLY__INIT;
    Inference__ErrorReply error = INFERENCE__ERROR_REPLY__INIT;
    const ProtobufCBinaryData *file = NULL;

    reply.valid_host = request->host;
    reply.original_request = request;
    switch (request->message_request_case) {
    case INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
    case INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
    case INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        if (!search(set, request, &file, &list)) {
            reply_error(&reply, &error, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        } else if (file != NULL) {
            reply.message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
            reply.file_descriptor_response = &files;
            files.n_file_descriptor_proto = 1;
            files.file_descriptor_proto = (ProtobufCBinaryData *)(uintptr_t)file;
        } else if (list.n_service > 0) {
            reply.message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
            reply.list_services_response = &list;
        } else {
            reply_error(&reply, &error, GRPC_NOT_FOUND, "no such file or symbol");
        }
        break;
    default: /* proto3 has no extensions */
        reply_error(&reply, &error, GRPC_NOT_FOUND, "there are no extensions");
    }
    call_pack(call, &reply.base);
    free_services(&list);
}

void grpc_reflection(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ReflectionRequest *request =
        call_unpack(call, &inference__reflection_request__descriptor, message, bytes);
    Inference__DescribedSet *set;

    if (request == NULL)
        return;
    set = inference__described_set__unpack(NULL, serve_descriptors_bytes, serve_descriptors);
    if (set != NULL)
        answer(call, request, set);
    else
        call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the reply");
    inference__described_set__free_unpacked(set, NULL);
    call_free_unpacked(request);
}
