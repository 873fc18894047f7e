#!/bin/sh
# Every public function that takes a model is called with every other kind of it, by
# tests/unit/test_wrong_kind.c or the test of its kind, or takes any model and stands here.
set -eu
any="qkv_model_create qkv_model_destroy qkv_model_type_of qkv_model_config qkv_model_self
qkv_model_type_defaults qkv_model_params qkv_model_context
qkv_model_can qkv_model_flops qkv_model_set_labels
qkv_model_label_count qkv_model_label qkv_model_labels qkv_model_set_eos_ids qkv_model_eos_count
qkv_model_set_image_format qkv_model_image_format qkv_model_visit qkv_model_init qkv_model_copy
qkv_hub_load qkv_hub_load_config qkv_hub_load_with qkv_hub_load_config_with
qkv_hub_load_stored qkv_hub_load_weights qkv_hub_load_matching qkv_hub_save qkv_hub_import
qkv_hub_add_adapter qkv_model_add_lora qkv_model_adapter qkv_model_adapter_count
qkv_model_merge_adapters"

# Declarations, one a line, without comments; of these the names in front of a parameter list with a
# model in it.
comment='/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/'
functions=$(cat "$QKV_SOURCE"/include/qkv/*.h | tr '\n' ' ' | sed "s,$comment,,g" |
    tr ';' '\n' | tr '{' '\n' | tr '}' '\n' |
    sed -n 's/.*[ *]\(qkv_[a-z0-9_]*\)(.*qkv_model \*.*/\1/p' | sort -u)
[ "$(echo "$functions" | wc -l)" -gt 100 ] || { echo "too few found: $functions"; exit 1; }
code=0
for f in $functions; do
    case " $(echo "$any" | tr '\n' ' ') " in *" $f "*) continue ;; esac
    grep -q "[TPZSV]($f, " "$QKV_SOURCE"/tests/unit/test_*.c || {
        echo "$f takes a model: no test of tests/unit calls it with another kind"
        code=1
    }
done
for f in $any $(sed -n 's/^    [TPZSV](\(qkv_[a-z0-9_]*\),.*/\1/p' \
    "$QKV_SOURCE"/tests/unit/test_*.c); do
    echo "$functions" | grep -qx "$f" || { echo "$f takes no model"; code=1; }
done
exit $code
