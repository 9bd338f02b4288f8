/* Server reflection: which services there are, and the descriptors of their messages. */
#include "reflection.pb-c.h"
#include "inlay/check.h"
#include "serve/grpc/grpc_internal.h"
#include <stdlib.h>
#include <string.h>

/* A FileDescriptorSet of the services and all that they import; generated. */
extern const uint8_t serve_descriptors[];
extern const size_t serve_descriptors_bytes;

/* The rest of the symbol behind the name and a dot, "" if the name is all of it; NULL: it begins otherwise. */
static const char *after_name(const char *symbol, const char *name)
{
    size_t bytes = strlen(name);

    if (strncmp(symbol, name, bytes) != 0 || (symbol[bytes] != '\0' && symbol[bytes] != '.'))
        return NULL;
    return symbol + bytes + (symbol[bytes] == '.');
}

static bool has_name(const char *symbol, Inference__DescribedName *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(symbol, names[i]->name) == 0)
            return true;
    return false;
}

/* Whether the symbol is a service or a method of one. */
static bool has_service(const char *symbol, Inference__DescribedList *const *services, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *rest = after_name(symbol, services[i]->name);

        if (rest != NULL && (rest[0] == '\0' || has_name(rest, services[i]->member, services[i]->n_member)))
            return true;
    }
    return false;
}

/* Whether the symbol is an enum or a value of one, whose name is beside that of the enum. */
static bool has_enum(const char *symbol, Inference__DescribedList *const *enums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(symbol, enums[i]->name) == 0 || has_name(symbol, enums[i]->member, enums[i]->n_member))
            return true;
    return false;
}

/* Whether the messages, or messages nested in them, define the symbol: as a message, a field, a oneof or an enum.
 * only_messages: only messages count. */
static bool has_message(const char *symbol, bool only_messages, Inference__DescribedMessage *const *messages,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Inference__DescribedMessage *one = messages[i];
        const char *rest = after_name(symbol, one->name);

        if (rest == NULL)
            continue;
        if (rest[0] == '\0' || has_message(rest, only_messages, one->nested_type, one->n_nested_type))
            return true;
        if (!only_messages &&
            (has_name(rest, one->field, one->n_field) || has_name(rest, one->oneof_decl, one->n_oneof_decl) ||
             has_enum(rest, one->enum_type, one->n_enum_type)))
            return true;
    }
    return false;
}

static bool has_symbol(const Inference__DescribedFile *file, const char *symbol, bool only_messages)
{
    const char *rest = after_name(symbol, file->package);

    if (rest == NULL)
        return false;
    return has_message(rest, only_messages, file->message_type, file->n_message_type) ||
           (!only_messages &&
            (has_service(rest, file->service, file->n_service) || has_enum(rest, file->enum_type, file->n_enum_type)));
}

/* Does the request ask for this file: by its name, by one of its symbols, or by one of its messages? */
static bool is_wanted(const Inference__DescribedFile *file, const Inference__ReflectionRequest *request)
{
    if (request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME)
        return strcmp(file->name, request->file_by_filename) == 0;
    if (request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE)
        return has_symbol(file, request->all_extension_numbers_of_type, true);
    return has_symbol(file, request->file_containing_symbol, false);
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
    Inference__ExtensionNumberReply extensions = INFERENCE__EXTENSION_NUMBER_REPLY__INIT;
    Inference__ErrorReply error = INFERENCE__ERROR_REPLY__INIT;
    const ProtobufCBinaryData *file = NULL;

    reply.valid_host = request->host;
    reply.original_request = request;
    if (request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION ||
        request->message_request_case == INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET) {
        reply_error(&reply, &error, GRPC_NOT_FOUND, "there are no extensions"); /* proto3 has none */
    } else if (!search(set, request, &file, &list)) {
        reply_error(&reply, &error, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    } else if (list.n_service > 0) {
        reply.message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
        reply.list_services_response = &list;
    } else if (file == NULL) {
        reply_error(&reply, &error, GRPC_NOT_FOUND, "no such file or symbol");
    } else if (request->message_request_case ==
               INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE) {
        reply.message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
        reply.all_extension_numbers_response = &extensions;
        extensions.base_type_name = request->all_extension_numbers_of_type;
    } else {
        reply.message_response_case = INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
        reply.file_descriptor_response = &files;
        files.n_file_descriptor_proto = 1;
        files.file_descriptor_proto = (ProtobufCBinaryData *)(uintptr_t)file;
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
