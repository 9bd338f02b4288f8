# Shared code of scripts that check JSON texts by filters of jq: one process checks all of them at the end, because jq
# takes longer to start than inlay.
#   . meets.bash

json_texts=() json_filters=() json_whats=()

# meets FILE FILTER WHAT...   the filter has to be true for the JSON text in the file, see unmet
meets() {
    local whole
    mapfile -d '' -t whole <"$1"
    json_texts+=("${whole[0]-}") json_filters+=("$2") json_whats+=("${*:3}")
}

# unmet   prints the texts whose filters are not true, and adds their number to `wrong`
unmet() {
    # shellcheck disable=SC2016 # a variable of jq
    local i held program='split("\u001e") as $text | true'
    [ ${#json_filters[@]} -gt 0 ] || return 0
    for i in "${!json_filters[@]}"; do
        program+=", (try ([\$text[$i] | fromjson | (${json_filters[i]})] | last | . != null and . != false) catch false)"
    done
    mapfile -t held < <(printf '%s\036' "${json_texts[@]}" | jq -Rs -f <(printf '%s' "$program"))
    for i in "${!json_filters[@]}"; do
        if [ "${held[i + 1]-}" != true ]; then
            wrong=$((wrong + 1))
            printf "WRONG: %s: jq '%s' is not true for\n%.900s\n" "${json_whats[i]}" "${json_filters[i]}" "${json_texts[i]}"
        fi
    done
}
