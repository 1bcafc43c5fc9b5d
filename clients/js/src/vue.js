// A feed in Vue: what is on air as a ref.

import { onScopeDispose, shallowRef, toValue, watch } from "vue";
import { watching } from "./watching.js";

/** Watches a feed until the scope it is called in ends. `options` may be a ref or a getter: other options connect anew. */
export function useFeed(options) {
  const shown = shallowRef();
  let close;
  watch(() => ({ ...toValue(options) }), (now) => {
    close?.();
    close = watching(now, (it) => (shown.value = it));
  }, { immediate: true });
  onScopeDispose(() => close());
  return shown;
}
