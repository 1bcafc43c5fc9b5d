/** A feed as a ref. */

import type { MaybeRefOrGetter, ShallowRef } from "vue";
import type { ConnectOptions } from "./client.js";
import type { Feed } from "./watching.js";

/** What is on air, until the scope it is called in ends. Other options, where they are a ref or a getter, connect anew. */
export function useFeed(options: MaybeRefOrGetter<ConnectOptions>): ShallowRef<Feed>;
