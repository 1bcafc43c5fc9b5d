/** What the parts for React, Vue and Svelte give: the list of a feed, and how the connection stands. */

import type { State } from "./client.js";
import type { List } from "./fold.js";

export type Feed = List & { state: State };
