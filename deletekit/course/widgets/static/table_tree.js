import { show } from "./shared.js";

// The tree is drawn as every tree is: TableTree is all keyboard and no figure.
export default show();
